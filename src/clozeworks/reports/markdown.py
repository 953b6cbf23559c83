"""Texts in Markdown: whatever they hold, they stay texts and stay where they are put.

A card is read by people and by hubs. Labels, columns and names of files come from data, and may
hold what Markdown, HTML or YAML would take for their own.
"""

import json
import re
from typing import Any

from clozeworks.wording import visible

# What begins something else than text: code, emphasis, links, pictures, HTML, strikethrough,
# mathematics, cells; an underscore between letters does not, and an ampersand only in an entity.
_MARKS = re.compile(r"[\\`*\[\]<~$|]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")


def plain_text(value: Any) -> str:
    """A text on one line that Markdown shows as it is."""
    return _MARKS.sub(r"\\\g<0>", visible(" ".join(str(value).split())))


def code_span(value: Any) -> str:
    """A text on one line as code; the fence is longer than any in it."""
    text = visible(" ".join(str(value).split()))
    fence = _fence(text, 1)
    edge = " " if text[:1] == "`" or text[-1:] == "`" or not text.strip() else ""
    return f"{fence}{edge}{text}{edge}{fence}" if text else ""


def cell(value: str) -> str:
    """Markdown on one line as a cell of a table."""
    # A stroke is taken for a border even inside code.
    return re.sub(r"(?<!\\)\|", r"\\|", value)


def code_block(code: str, language: str) -> str:
    """Lines of code; the fence is longer than any in them."""
    fence = _fence(code, 3)
    return f"{fence}{language}\n{code}\n{fence}"


def yaml_value(value: Any) -> str:
    """Plain data as YAML on one line."""
    # JSON is YAML, so that no name can be taken for something else; escapes of Python are, too.
    return visible(json.dumps(value, ensure_ascii=False))


def _fence(text: str, least: int) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
