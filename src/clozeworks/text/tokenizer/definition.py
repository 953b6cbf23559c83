"""Reads `tokenizer.json`, and checks what it says before the library builds anything of it."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from clozeworks.config import parse_json, read_text
from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.library import library
from clozeworks.wording import counted, shortened

# Published vocabularies leave a few ids empty. Time and memory grow with the highest id, so one far
# above the number of tokens is a mistake, or an attack.
MOST_EMPTY_IDS = 1_000_000
# JSON may write halves of surrogate pairs, which are no characters.
_HALF = re.compile("[\ud800-\udfff]")


def read_definition(
    path: Path, change: Callable[[dict[str, Any]], bool]
) -> tuple[Backend, dict[str, Any]]:
    """Reads `tokenizer.json`: the library's tokenizer, and what the file says.

    Args:
        path: The file.
        change: Changes what the file says before it is used; tells whether it did.

    Raises:
        TokenizerError: If the file is damaged or contradicts itself.
    """
    text = read_text(path, TokenizerError)
    data = parse_json(text, path, TokenizerError, repeats=False)
    model, added = _within(data, "model"), _within(data, "added_tokens")
    pieces = _within(model, "vocab")
    stated: list[tuple[Any, Any]] = [
        (token.get("content"), token.get("id"))
        for token in (added if isinstance(added, list) else ())
        if isinstance(token, Mapping)
    ]
    check_ids(path, pieces.items() if isinstance(pieces, Mapping) else (), stated)
    if isinstance(data, dict) and change(data):
        text = json.dumps(data)
    with library(str(path)):
        backend = Backend.from_str(text)
    for name, index in stated:
        actual = backend.token_to_id(name)
        if actual != index:
            becomes = "cannot be added" if actual is None else f"becomes {actual:,}"
            raise TokenizerError(
                f"{path}: the id of {shortened(repr(name))} is {index:,}; among the added tokens "
                f"it {becomes}; ids go on from the vocabulary; fetch the file again."
            )
    return backend, data


def _within(data: Any, key: str) -> Any:
    return data.get(key) if isinstance(data, Mapping) else None


def check_ids(path: Path, *tables: Iterable[tuple[Any, Any]]) -> None:
    """Insists that each id has one token, and that no id is far above the number of tokens.

    Args:
        path: The file, for messages.
        tables: Tokens with their ids; a token may stand in several tables, with the same id.

    Raises:
        TokenizerError: If an id cannot be one.
    """
    owner: dict[int, Any] = {}
    for token, index in chain.from_iterable(tables):
        check_id(path, token, index)
        if isinstance(token, str) and _HALF.search(token):
            raise TokenizerError(
                f"{path}: the token {shortened(repr(token))} holds half of a character; tokens "
                "are whole characters; fetch the file again."
            )
        if owner.setdefault(index, token) != token:
            raise TokenizerError(
                f"{path}: id {index:,} belongs to {shortened(repr(owner[index]))} and to "
                f"{shortened(repr(token))}; an id has one token; fetch the file again."
            )
    highest = max(owner, default=-1)
    if highest - len(owner) >= MOST_EMPTY_IDS:
        raise TokenizerError(
            f"{path}: the id of {shortened(repr(owner[highest]))} is {highest:,}, and there are "
            f"{counted(len(owner), 'token')}; at most {MOST_EMPTY_IDS:,} ids may be empty; fetch "
            "the file again."
        )


def check_id(path: Path, token: Any, index: Any) -> None:
    """Insists that an id is a number.

    Raises:
        TokenizerError: If it is not.
    """
    if type(index) is not int or index < 0:
        raise TokenizerError(
            f"{path}: the id of {shortened(repr(token))} is {shortened(repr(index))}; ids are "
            "whole numbers from 0; fetch the file again."
        )
