"""Where texts begin and end, as a folder says it: `generation_config.json`, else `config.json`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from clozeworks.checkpoints.whole_folder import write_json
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
    return read_json(folder / FILE, optional=True)


def write_generation(
    folder: Path, generation: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """Writes `generation_config.json`, with the tokens of the config where it names none."""
    stated = {key: config[key] for key in _STATED if config.get(key) is not None}
    write_json(folder / FILE, {**stated, **generation})


def ends_of(
    generation: Mapping[str, Any], config: Mapping[str, Any], tokenizer: Tokenizer, rows: int
) -> tuple[int, ...]:
    """The tokens that end a text; that of the tokenizer if neither config states any.

    Raises:
        CheckpointError: If what is stated is not a token.
    """
    for path, values in ((FILE, generation), ("config.json", config)):
        stated = values.get(END)
        if stated is not None:
            tokens = stated if isinstance(stated, list) else [stated]
            return tuple(_token(path, END, token, rows) for token in tokens)
    return () if tokenizer.last_id is None else (tokenizer.last_id,)


def start_of(
    generation: Mapping[str, Any], config: Mapping[str, Any], tokenizer: Tokenizer, rows: int
) -> int | None:
    """The decoder start token of an encoder-decoder; its padding token if none is stated.

    Raises:
        CheckpointError: If what is stated is not a token.
    """
    for path, values in ((FILE, generation), ("config.json", config)):
        if values.get(START) is not None:
            return _token(path, START, values[START], rows)
    return tokenizer.pad_id


def max_positions_of(blueprint: Blueprint, config: Mapping[str, Any]) -> int | None:
    """The maximum number of tokens of a text and what is generated after it; None without a limit.

    Rotary positions have no end of their own, but nothing was learned after the last one of
    training, which a config states. The output of an encoder-decoder has no limit.
    """
    if blueprint.decoder is not None or blueprint.max_length() is not None:
        return blueprint.max_length()
    stated = config.get("max_position_embeddings")
    return stated if blueprint.can_generate and type(stated) is int and stated > 0 else None


def noted_sentinels(notes: Mapping[str, Any], source_location: str) -> Sentinels | None:
    """Which tokens stand for gaps, if the notes in `clozeworks.json` say so.

    Raises:
        CheckpointError: If the notes name an unknown kind.
    """
    sentinels: Sentinels | None = notes.get("sentinels")
    if sentinels not in (None, *get_args(Sentinels)):
        raise CheckpointError(
            f"{source_location}: sentinels is {sentinels!r} in clozeworks.json; it must be 'named' "
            "or 'bytes'; restore the file."
        )
    return sentinels


def _token(source_location: str, key: str, token: Any, rows: int) -> int:
    if type(token) is not int or not 0 <= token < rows:
        raise CheckpointError(
            f"{source_location}: {key} is {token!r}; it must be the number of a token, from 0 to "
            f"{rows - 1:,}; correct it."
        )
    return token
