"""Mutates valid inputs of every reader: what is refused must be refused in a sentence, and soon.

    python tests/fuzz/readers.py                        # a minute for each reader
    python tests/fuzz/readers.py --count 200000 recipe  # so many inputs for readers named so
    python tests/fuzz/readers.py --list

An input is a folder of files of which one is damaged, structurally (JSON, TOML) or byte by byte. It
may be read, or end in a `ClozeworksError` whose text is a sentence; anything else, more than
two seconds, or more memory than 4 GB, is a finding. `test_readers.py` tries a few of each.
"""

# ruff: noqa: E501 (a sample is read more easily on one line)

import argparse
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from damage import BYTES, Reader, fuzz
from data_files import argument_readers, data_readers, stream_readers, template_readers
from index_files import index_readers
from model_files import (
    checkpoint_readers,
    config_readers,
    corpus_readers,
    recipe_readers,
    run_readers,
    tokenizer_readers,
)

GROUPS = (
    recipe_readers, config_readers, tokenizer_readers, checkpoint_readers, corpus_readers, run_readers,
    index_readers, data_readers, stream_readers, argument_readers, template_readers,
)  # fmt: skip


def readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    """Every reader with its valid input; `folder` is for making them."""
    for group in GROUPS:
        inside = folder / group.__name__
        inside.mkdir(parents=True)
        yield from group(inside)


def main() -> int:
    """Fuzzes the readers whose names hold one of the given words."""
    import resource  # not on Windows

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of readers; all if not given")
    parser.add_argument("--count", type=int, default=10**9, help="inputs for each reader")
    parser.add_argument("--seconds", type=float, default=None, help="seconds for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print the names of all readers")
    arguments = parser.parse_args()
    seconds = arguments.seconds or (60.0 if arguments.count == 10**9 else math.inf)
    fast = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="fuzz", dir=fast))
    problems = 0
    try:
        for name, reader in readers(folder / "made"):
            if arguments.list:
                print(name)
                continue
            if arguments.names and not any(word in name for word in arguments.names):
                continue
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            at = folder / "input"
            at.mkdir()
            found = fuzz(reader, at, random.Random(arguments.seed), arguments.count, seconds)
            shutil.rmtree(at)
            speed = found.tried / max(found.seconds, 1e-9)
            print(
                f"{name}: {found.tried:,} inputs, {found.refused:,} refused, {len(found.found)} "
                f"findings, {speed:,.0f} a second",
                flush=True,
            )
            for key, (data, problem) in found.found.items():
                problems += 1
                print(f"    {key}\n        {problem[:400]}\n        {data[:300]!r}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return min(problems, 1)


if __name__ == "__main__":
    sys.exit(main())
