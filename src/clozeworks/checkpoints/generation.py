"""Where texts begin and end, as a folder says it: `generation_config.json`, else `config.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from clozeworks.config import read_json
from clozeworks.core.blueprint import Blueprint
from clozeworks.errors import CheckpointError
from clozeworks.objectives.span_corruption import Sentinels
from clozeworks.text.tokenizer.tokenizer import Tokenizer

FILE = "generation_config.json"
START, END = "decoder_start_token_id", "eos_token_id"
# What another library would otherwise have to guess.
_STATED = ("bos_token_id", END, "pad_token_id", START)


def read_generation(folder: Path) -> dict[str, Any]:
    """What `generation_config.json` says; empty if there is none."""
    return read_json(folder / FILE, error=CheckpointError, optional=True)


def write_generation(
    folder: Path, generation: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """Writes it again, with the tokens that the config names where it names none."""
    stated = {key: config[key] for key in _STATED if config.get(key) is not None}
    text = json.dumps({**stated, **generation}, indent=2, ensure_ascii=False)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def ends_of(
    generation: Mapping[str, Any], config: Mapping[str, Any], tokenizer: Tokenizer, rows: int
) -> tuple[int, ...]:
    """The tokens that end a text; empty if there is none.

    Args:
        generation: What `generation_config.json` says.
        config: What `config.json` says.
        tokenizer: Its last token counts if both say nothing.
        rows: The number of token vectors.

    Raises:
        CheckpointError: If what is stated is not a token.
    """
    for path, values in ((FILE, generation), ("config.json", config)):
        stated = values.get(END)
        if stated is not None:
            found = tuple(stated) if isinstance(stated, list) else (stated,)
            return tuple(_token(path, END, token, rows) for token in found)
    return () if tokenizer.last_id is None else (tokenizer.last_id,)


def start_of(
    generation: Mapping[str, Any], config: Mapping[str, Any], tokenizer: Tokenizer, rows: int
) -> int | None:
    """What the answers of an encoder-decoder begin with: its padding token if nothing is stated.

    Raises:
        CheckpointError: If what is stated is not a token.
    """
    for path, values in ((FILE, generation), ("config.json", config)):
        if values.get(START) is not None:
            return _token(path, START, values[START], rows)
    return tokenizer.pad_id


def max_positions_of(blueprint: Blueprint, config: Mapping[str, Any]) -> int | None:
    """The most tokens of a text and what is written after it; None without a limit.

    Rotary positions have no end of their own, but nothing was learned after the last one of
    training, which a config states. What an encoder-decoder writes has no limit.
    """
    if blueprint.decoder is not None or blueprint.max_length() is not None:
        return blueprint.max_length()
    stated = config.get("max_position_embeddings")
    return stated if blueprint.can_generate and type(stated) is int and stated > 0 else None


def noted_sentinels(notes: Mapping[str, Any], source_location: str) -> Sentinels | None:
    """What a model learned to read for a gap, if its folder says so.

    Args:
        notes: What `clozeworks.json` says.
        source_location: What messages call the folder.

    Raises:
        CheckpointError: If the folder names no token that is known.
    """
    found: Sentinels | None = notes.get("sentinels")
    if found not in (None, *get_args(Sentinels)):
        raise CheckpointError(
            f"{source_location}: sentinels is {found!r} in clozeworks.json; it must be 'named' or "
            "'bytes'; restore the file."
        )
    return found


def _token(source_location: str, key: str, token: Any, rows: int) -> int:
    if type(token) is not int or not 0 <= token < rows:
        raise CheckpointError(
            f"{source_location}: {key} is {token!r}; it must be the number of a token, from 0 to "
            f"{rows - 1:,}; correct it."
        )
    return token
