"""A model folder, read and written whole.

Writing goes to a fresh temporary folder beside the target, every file is synced, and one rename
puts it in place: at no moment does a half-written model stand under the target's name.
"""

import dataclasses
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clozeworks.checkpoints.report import LoadReport
from clozeworks.checkpoints.sentence import Pooling, read_pooling, write_pooling
from clozeworks.checkpoints.tensors import WeightFiles, read_json, write_weights
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.model import Model
from clozeworks.errors import CheckpointError, OutputError, TokenizerError
from clozeworks.families.family import Config, Family, Parts, family, parts_of
from clozeworks.families.weights import Names
from clozeworks.text.tokenizer import Tokenizer

# What only Clozeworks writes: the fingerprint of the tokenizer the weights were trained with.
NOTES = "clozeworks.json"
SHARD_BYTES = 5 * 10**9


@dataclass
class Checkpoint:
    """What a folder holds."""

    model: Model
    family: Family
    config: dict[str, Any]
    """The published config as it was read; unknown keys are kept for saving."""
    tokenizer: Tokenizer | None
    pooling: Pooling
    report: LoadReport


def read_config(folder: Path) -> tuple[Config, Family]:
    """The config of a folder and the family it belongs to."""
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder} is no folder; give a model folder with config.json, or a hub name."
        )
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(
            f"{folder} has no config.json, so it is no model folder; name a folder that "
            f"save or save_pretrained wrote."
        )
    config = Config(read_json(path), str(path))
    if not isinstance(config.get("model_type"), str):
        raise CheckpointError(
            f"{path}: model_type is {config.get('model_type')!r}; it must name the family, "
            f"for example bert."
        )
    return config, family(config["model_type"], str(path))


def load(folder: Path, *, dtype: torch.dtype | None = None) -> Checkpoint:
    """Reads a folder; `dtype` converts the weights, which otherwise stay as stored."""
    config, found = read_config(folder)
    files = WeightFiles(folder)
    name = _architecture(config, found, files)
    names = found.names(name)
    report = LoadReport()
    untied = config.get("tie_word_embeddings") is False
    sources = _sources(files, names, report, untied)
    parts = _parts(found, sources)
    report.absent = sorted(found.architectures[name].parts - parts)
    blueprint = found.blueprint(config, parts)
    blueprint = _untie_if_different(blueprint, files, sources, report)
    model = _filled(blueprint, files, sources, names, report, dtype)
    if report.is_fatal:
        raise CheckpointError(
            f"{folder} does not fit its config.json: " + "; ".join(report.lines())
        )
    tokenizer = _tokenizer(folder, found, blueprint, report)
    return Checkpoint(
        model=model.eval(),
        family=found,
        config=dict(config),
        tokenizer=tokenizer,
        pooling=read_pooling(folder),
        report=report,
    )


def save(checkpoint: Checkpoint, folder: Path, *, overwrite: bool, shard_bytes: int) -> None:
    """Writes a folder that Clozeworks, transformers and sentence-transformers load."""
    blueprint = checkpoint.model.blueprint
    found = checkpoint.family
    written = found.config(blueprint)
    parts = parts_of(blueprint)
    name = _kept_architecture(checkpoint, parts) or found.fitting(parts)
    config = {
        **checkpoint.config,
        **written,
        "architectures": [name],
        "dtype": str(next(checkpoint.model.parameters()).dtype).removeprefix("torch."),
    }
    tied = checkpoint.model.tied()
    names = found.names(name)
    weights = {
        names.theirs(ours, prefixed=name != found.base): tensor
        for ours, tensor in checkpoint.model.state_dict().items()
        if ours not in tied
    }
    if not tied:  # then both spellings of a bias are parameters of their own for others
        for ours, tensor in checkpoint.model.state_dict().items():
            if second := names.second(ours):
                weights[second] = tensor.clone()
    with fresh_folder(folder, overwrite=overwrite) as place:
        (place / "config.json").write_text(
            json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        write_weights(place, weights, shard_bytes)
        notes: dict[str, Any] = {"format": 1}
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.save(place)
            notes["tokenizer"] = checkpoint.tokenizer.fingerprint
        if checkpoint.pooling.stated:
            write_pooling(place, checkpoint.pooling, blueprint.width)
        (place / NOTES).write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Complains early about a folder that cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(
            f"{folder} exists and is not empty; choose another name, or replace it with "
            f"--overwrite."
        )
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{parent} cannot be written; choose another place.")


@contextmanager
def fresh_folder(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder that takes the target's name when the block ends well."""
    check_target(folder, overwrite=overwrite)
    folder = folder.absolute()
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
    place = folder.with_name(f".{folder.name}.{mark}.tmp")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir()
        yield place
        for path in sorted(place.rglob("*")):
            _sync(path)
        _sync(place)
        _replace(place, folder, mark)
        _sync(folder.parent)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"{folder} could not be written ({error.strerror or error}); nothing was changed."
        ) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _replace(place: Path, folder: Path, mark: str) -> None:
    if not folder.exists():
        place.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.{mark}.old")
    folder.rename(old)
    try:
        place.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _architecture(config: Config, found: Family, files: WeightFiles) -> str:
    """The architecture the config names, or else the one the weights speak of."""
    stated = config.get("architectures")
    if isinstance(stated, list) and stated and stated[0] in found.architectures:
        return str(stated[0])
    for name, shape in found.architectures.items():
        names = found.names(name)
        present = {names.ours(theirs) for theirs in files}
        if all(
            any((ours or "").startswith(found.paths[part]) for ours in present)
            for part in shape.parts
        ) and shape.parts - {"pooler"}:
            return name
    return found.base


def _sources(files: WeightFiles, names: Names, report: LoadReport, untied: bool) -> dict[str, str]:
    """Our name of every weight in the folder, and the published one it is read from."""
    sources: dict[str, str] = {}
    for theirs in files:
        ours = names.ours(theirs)
        if ours is None:
            (report.dropped if names.is_ignored(theirs) else report.unexpected).append(theirs)
        elif ours not in sources:
            sources[ours] = theirs
        else:  # two spellings of one weight: one of them counts
            usual = {names.theirs(ours, prefixed=prefixed) for prefixed in (True, False)}
            counts = {names.second(ours)} if untied and names.second(ours) else usual
            first = sources[ours]
            sources[ours], other = (theirs, first) if theirs in counts else (first, theirs)
            report.duplicates.append(other)
    return sources


def _parts(found: Family, sources: dict[str, str]) -> Parts:
    """The parts that have at least one weight in the folder."""
    return frozenset(
        part for part, path in found.paths.items() if any(ours.startswith(path) for ours in sources)
    )


def _untie_if_different(
    blueprint: Blueprint, files: WeightFiles, sources: dict[str, str], report: LoadReport
) -> Blueprint:
    """Believes the weights where a config says tied and the two tables differ."""
    head = blueprint.heads.get("vocabulary")
    copy = sources.get("heads.vocabulary.decoder.weight")
    table = sources.get("embeddings.tokens.weight")
    if not isinstance(head, Vocabulary) or not head.tied or copy is None or table is None:
        return blueprint
    if files.shape(copy) == files.shape(table) and torch.equal(
        files.tensor(copy), files.tensor(table)
    ):
        return blueprint
    report.notes.append(
        f"{copy} differs from the embedding table although config.json says they are tied; "
        f"both are kept, untied"
    )
    heads = {**blueprint.heads, "vocabulary": dataclasses.replace(head, tied=False)}
    return dataclasses.replace(blueprint, heads=heads)


def _filled(
    blueprint: Blueprint,
    files: WeightFiles,
    sources: dict[str, str],
    names: Names,
    report: LoadReport,
    dtype: torch.dtype | None,
) -> Model:
    """The model with the folder's weights in place, without a second copy in memory."""
    with torch.device("meta"):
        model = blueprint.build()
    tied = model.tied()
    state: dict[str, torch.Tensor] = {}
    for ours, parameter in model.state_dict().items():
        theirs = sources.pop(ours, None)
        if ours in tied:
            report.duplicates += [theirs] if theirs else []
        elif theirs is None:
            report.missing.append(names.theirs(ours, prefixed=False))
        elif files.shape(theirs) != tuple(parameter.shape):
            report.misshapen[theirs] = (files.shape(theirs), tuple(parameter.shape))
        else:
            tensor = files.tensor(theirs)
            state[ours] = tensor if dtype is None else tensor.to(dtype)
    report.unexpected += sources.values()
    report.loaded = len(state)
    if not report.is_fatal:
        model.load_state_dict(state, strict=False, assign=True)
        model.tie()
    return model


def _tokenizer(
    folder: Path, found: Family, blueprint: Blueprint, report: LoadReport
) -> Tokenizer | None:
    """The folder's tokenizer, checked against the weights; None if it has none."""
    if not any((folder / name).exists() for name in ("tokenizer.json", "vocab.txt", "vocab.json")):
        report.notes.append("no tokenizer in the folder")
        return None
    tokenizer = Tokenizer.load(folder, style=found.style)
    rows = blueprint.embeddings.tokens
    if tokenizer.size > rows:
        raise TokenizerError(
            f"{folder}: the tokenizer has {tokenizer.size:,} entries, but the embeddings have only "
            f"{rows:,} rows; they do not belong together; restore the tokenizer files."
        )
    if tokenizer.size < rows:
        report.notes.append(f"the embeddings have {rows - tokenizer.size:,} rows without a token")
    if (folder / NOTES).exists():
        expected = read_json(folder / NOTES).get("tokenizer")
        if expected is not None and expected != tokenizer.fingerprint:
            raise TokenizerError(
                f"{folder}: the tokenizer is not the one this model was saved with (fingerprint "
                f"{tokenizer.fingerprint[:19]}…, saved {str(expected)[:19]}…); restore its files, "
                f"or remove {NOTES} if the change is meant."
            )
    return tokenizer


def _kept_architecture(checkpoint: Checkpoint, parts: Parts) -> str | None:
    """The architecture the config names, if it can go on naming these parts."""
    architectures = checkpoint.family.architectures
    stated = checkpoint.config.get("architectures")
    name = str(stated[0]) if isinstance(stated, list) and stated else ""
    if name not in architectures:
        return None
    own = architectures[name].parts
    # Parts whose names mean something only in another architecture could not be written.
    foreign = {
        ours.ours.split(".")[1]
        for other, shape in architectures.items()
        if other != name
        for ours in shape.rules
        if ours.ours.startswith("heads.")
    }
    return name if own <= parts and not (parts - own) & foreign else None
