#!/bin/sh
# The commands of the README's first section, run in quickstart-out/.
# CLOZEWORKS names the program; `make quickstart` sets it.
set -eu
program=$(cd "$(dirname "${CLOZEWORKS:-clozeworks}")" 2>/dev/null && pwd)/$(basename "${CLOZEWORKS:-clozeworks}")
[ -x "$program" ] || program=clozeworks
python=$(dirname "$program")/python
[ -x "$python" ] || python=python3
mkdir -p quickstart-out
cd quickstart-out
rm -rf tokenizer corpus model vectors.npy

show() {
    printf '\n$ %s\n' "$1"
    eval "$(printf '%s' "$1" | sed -e "s#^clozeworks #\"$program\" #" -e "s#^python #\"$python\" #")"
}

grep '^\$ ' ../README.md | sed -n '/pydoc_data/,/embed model text/p' | cut -c3- > commands
while IFS= read -r line; do show "$line"; done < commands
rm commands
printf '\nEverything is in quickstart-out/. Next: clozeworks --help, or the README on.\n'
