"""What `generation_config.json` says: where texts that a model writes begin and end."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clozeworks.config import read_json
from clozeworks.core.blueprint import Blueprint
from clozeworks.text.tokenizer import Tokenizer

FILE = "generation_config.json"


def read_generation(folder: Path) -> dict[str, Any]:
    """What a folder says; nothing if it has no such file."""
    return read_json(folder / FILE, optional=True)


def write_generation(
    folder: Path, stated: Mapping[str, Any], blueprint: Blueprint, tokenizer: Tokenizer | None
) -> None:
    """Writes what was stated and what others could not guess; nothing if the model does not write.

    Args:
        folder: Where to.
        stated: What the folder said that the model came from.
        blueprint: The model.
        tokenizer: Knows where texts begin and end.
    """
    if not blueprint.writes or "vocabulary" not in blueprint.heads:
        return
    known: dict[str, Any] = {}
    if tokenizer is not None:
        known = {
            "bos_token_id": tokenizer.first_id,
            "eos_token_id": tokenizer.last_id,
            "pad_token_id": tokenizer.pad_id,
        }
        if blueprint.decoder is not None:
            known["decoder_start_token_id"] = tokenizer.pad_id
        elif tokenizer.pad_id is None:
            known["pad_token_id"] = tokenizer.last_id  # so that others can fill up their rows
    written = {**{key: value for key, value in known.items() if value is not None}, **stated}
    if written:
        text = json.dumps(written, indent=2, ensure_ascii=False) + "\n"
        (folder / FILE).write_text(text, encoding="utf-8")
