"""A page of its own that shows what was seen inside a model: one file, no server, no network.

It holds the very modules of the page, as data, so that nothing is drawn twice: an import map gives
each a name. Its policy forbids everything else, whatever the texts on it hold.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

_FOLDER = Path(__file__).parents[1] / "page"
_BEGIN = "look/alone.js"
_IMPORT = re.compile(r'^(import [^;]*? from )"(\.[^"]+)";', re.MULTILINE)
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_NEEDS = {
    "en": "This page needs JavaScript: please allow it.",
    "zh": "本页面需要 JavaScript：请允许脚本运行。",
}


def page_alone(record: Mapping[str, Any], language: str = "en") -> str:
    """A page with a record, as `to_dict` of a view made it, in `en` or `zh`."""
    modules: dict[str, str] = {}
    _collect(_BEGIN, modules)
    names = {name: f"data:text/javascript;base64,{_base64(text)}" for name, text in modules.items()}
    style = (_FOLDER / "style.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="content-security-policy" content="{_POLICY}">
<title>Clozeworks</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
<script type="importmap">{json.dumps({"imports": names})}</script>
</head>
<body>
<main><noscript><p>{_NEEDS[language]}</p></noscript></main>
<script type="application/json" id="record">{_inert(record)}</script>
<script type="module">import "{_named(_BEGIN)}";</script>
</body>
</html>
"""


def _collect(path: str, modules: dict[str, str]) -> None:
    """A module and all that it imports, each under its name, with names in place of paths."""
    if _named(path) in modules:
        return
    modules[_named(path)] = ""
    folder = PurePosixPath(path).parent

    def renamed(found: re.Match[str]) -> str:
        target = (_FOLDER / folder / found[2]).resolve().relative_to(_FOLDER.resolve()).as_posix()
        _collect(target, modules)
        return f'{found[1]}"{_named(target)}";'

    text = (_FOLDER / path).read_text(encoding="utf-8")
    modules[_named(path)] = _IMPORT.sub(renamed, text)


def _named(path: str) -> str:
    return f"clozeworks/{path}"


def _base64(text: str) -> str:
    return b64encode(text.encode("utf-8")).decode("ascii")


def _inert(record: Mapping[str, Any]) -> str:
    """JSON in which nothing ends a script or begins a comment."""
    text = json.dumps(record, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
