"""How a folder says texts become vectors: the files sentence-transformers reads and writes.

`modules.json` lists the steps, `1_Pooling/config.json` the pooling, a `Normalize` step the last
scaling, `sentence_bert_config.json` the length limit.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeworks.config import read_any_json, read_json
from clozeworks.core.heads.pooling import check_modes
from clozeworks.errors import CheckpointError, UnknownName

# Their spelling of a mode in the older files (one true-or-false key each), and ours.
_FLAGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_length",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}
# Their spelling in the newer files (one key with a name or a list of names).
_NAMES = {
    "cls": "first",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_length",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}


@dataclass(frozen=True)
class Pooling:
    """How token vectors become one vector per text."""

    modes: tuple[str, ...] = ("mean",)
    normalize: bool = False
    max_length: int | None = None
    """The longest text, in tokens, the sentence model was made for."""
    stated: bool = False
    """Whether the folder says so, or it is our default."""

    def __post_init__(self) -> None:
        check_modes(self.modes)

    def __str__(self) -> str:
        scaled = ", scaled to length 1" if self.normalize else ""
        source = "as the model folder says" if self.stated else "the default"
        return f"{' + '.join(self.modes)} pooling{scaled} ({source})"


def read_pooling(folder: Path) -> Pooling:
    """What the folder says, or plain mean pooling if it says nothing."""
    if not (folder / "modules.json").exists():
        return Pooling()
    steps = _steps(folder / "modules.json")
    modes: tuple[str, ...] = ()
    normalize = False
    for step in steps:
        kind = str(step.get("type", "")).rsplit(".", 1)[-1]
        if kind == "Pooling":
            modes = _modes(_inside(folder, step.get("path", "1_Pooling")) / "config.json")
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise CheckpointError(
                f"{folder / 'modules.json'} names a {kind!r} step; Clozeworks computes "
                f"Transformer, Pooling and Normalize; remove the step if you can do without it."
            )
    if not modes:
        raise CheckpointError(f"{folder / 'modules.json'} has no Pooling step; add one.")
    _refuse(folder / "sentence_bert_config.json", "do_lower_case")
    _refuse(folder / "config_sentence_transformers.json", "default_prompt_name")
    limit = read_json(folder / "sentence_bert_config.json", optional=True).get("max_seq_length")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise CheckpointError(
            f"{folder / 'sentence_bert_config.json'}: max_seq_length is {limit!r}; it must be a "
            f"whole number of at least 1."
        )
    return Pooling(modes=modes, normalize=normalize, max_length=limit, stated=True)


def write_pooling(folder: Path, pooling: Pooling, width: int) -> None:
    """Writes what sentence-transformers needs to load the folder."""
    package = "sentence_transformers.models"
    steps = [("", "Transformer"), ("1_Pooling", "Pooling")]
    steps += [("2_Normalize", "Normalize")] if pooling.normalize else []
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"{package}.{kind}"}
        for index, (path, kind) in enumerate(steps)
    ]
    config: dict[str, Any] = {"word_embedding_dimension": width}
    flags = {flag: mode in pooling.modes for flag, mode in _FLAGS.items()}
    if pooling.modes == tuple(mode for flag, mode in _FLAGS.items() if flags[flag]):
        config |= flags
    else:  # flags have an order of their own; only the newer form can say another
        theirs = {ours: name for name, ours in _NAMES.items()}
        config["pooling_mode"] = [theirs[mode] for mode in pooling.modes]
    config["include_prompt"] = True
    _write(folder / "modules.json", modules)
    _write(folder / "1_Pooling" / "config.json", config)
    if pooling.max_length is not None:
        limits = {"max_seq_length": pooling.max_length, "do_lower_case": False}
        _write(folder / "sentence_bert_config.json", limits)


def _refuse(path: Path, key: str) -> None:
    """Complains about a setting that changes texts before they are cut into tokens."""
    value = read_json(path, optional=True).get(key)
    if value:
        raise CheckpointError(
            f"{path}: {key} is {value!r}; it would change every vector and Clozeworks does not "
            f"compute it; remove the key, and change the texts yourself if you need it."
        )


def _steps(path: Path) -> list[dict[str, Any]]:
    steps = read_any_json(path)
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise CheckpointError(f"{path} must be a JSON list of steps; restore the file.")
    return steps


def _inside(folder: Path, name: object) -> Path:
    path = folder / str(name)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise CheckpointError(
            f"{folder / 'modules.json'} names the folder {name!r}; it must lie inside {folder}; "
            f"restore the file."
        )
    return path


def _modes(path: Path) -> tuple[str, ...]:
    config = read_json(path)
    if "pooling_mode" in config:
        named = config["pooling_mode"]
        names = named if isinstance(named, list) and named else [named]
        for name in names:
            if not isinstance(name, str):
                raise CheckpointError(
                    f"{path}: pooling_mode is {named!r}; it must be a name or a list of names; "
                    f"known: {', '.join(_NAMES)}."
                )
            if name not in _NAMES:
                raise UnknownName(f"{path}: pooling_mode", name, _NAMES)
        return tuple(_NAMES[name] for name in names)
    modes = tuple(mode for flag, mode in _FLAGS.items() if config.get(flag))
    if not modes:
        raise CheckpointError(
            f"{path} switches no pooling mode on; set one of {', '.join(_FLAGS)}."
        )
    return modes


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
