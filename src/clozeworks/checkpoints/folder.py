"""A model folder in the Hugging Face layout, read and written."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from clozeworks.checkpoints.generation import read_generation, write_generation
from clozeworks.checkpoints.report import LoadReport
from clozeworks.checkpoints.sentence import (
    Pooling,
    Prompts,
    add_head,
    read_activation,
    read_pooling,
    read_prompts,
    stated_pooling,
    usual_pooling,
    write_pooling,
    write_prompts,
)
from clozeworks.checkpoints.tensors import TakenApart, WeightFiles, put_together, write_weights
from clozeworks.checkpoints.whole_folder import fresh_folder, write_json
from clozeworks.config import plain, read, read_json
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.sentence_vectors import NAME as SENTENCE
from clozeworks.core.heads.vocabulary import PlainVocabulary, Vocabulary
from clozeworks.core.model import Model
from clozeworks.errors import CheckpointError, ClozeworksError, TokenizerError, shown
from clozeworks.families.family import Config, Family, Parts, family
from clozeworks.families.weights import Names
from clozeworks.storage.checksums import NOTES, advice, check_files, read_notes, write_notes
from clozeworks.text.tokenizer.files import CONVERT, sentence_piece
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

# What else `clozeworks.json` says: the fingerprint of the tokenizer the weights were trained with,
# heads that no published architecture has, the task, and which tokens stood for gaps in training.
KEPT = ("task", "sentinels")
SHARD_BYTES = 5 * 10**9
# Loading reads every byte of this much once more, in well under a second, to compare it with its
# checksum; of larger weights it compares the sizes, and `clozeworks verify` all bytes.
CHECKED_BYTES = 512 * 2**20


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
    prompts: Prompts = dataclasses.field(default_factory=Prompts)
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What `clozeworks.json` says."""
    generation: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What `generation_config.json` says."""
    unread: str | None = None
    """A tokenizer file of the folder that must be converted first."""


def read_config(folder: Path) -> tuple[Config, Family]:
    """The config of a folder and the family it belongs to."""
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder} is not a folder; give a model folder with config.json, or a hub name."
        )
    path = folder / "config.json"
    if not path.exists():
        if (folder / "model" / path.name).exists():
            raise CheckpointError(
                f"{folder} is not a model folder, but {folder / 'model'} is, as in the folder of a "
                "run; name that."
            )
        raise CheckpointError(
            f"{folder} has no config.json, so it is not a model folder; name a folder that "
            f"Clozeworks or transformers saved."
        )
    config = Config(read_json(path), str(path))
    if not isinstance(config.get("model_type"), str):
        raise CheckpointError(
            f"{path}: model_type is {shown(config.get('model_type'))}; it must name the family, "
            "for example bert."
        )
    return config, family(config["model_type"], str(path))


def load(folder: Path, *, dtype: torch.dtype | None = None, check: bool = True) -> Checkpoint:
    """Reads a folder.

    Args:
        folder: The folder.
        dtype: What the weights are converted to; they stay as stored if not given.
        check: Whether files are compared with their checksums; with their sizes they always are.

    Raises:
        CheckpointError: If the folder is incomplete, damaged or contradicts itself.
    """
    config, family = read_config(folder)
    notes = read_notes(folder)
    with ThreadPoolExecutor(1, "checksums") as background:
        most = CHECKED_BYTES if check else 0
        compared = background.submit(check_files, folder, notes, most=most)
        loaded = _read(folder, config, family, notes, dtype)
        # Last: what is wrong with a file that cannot be used was said above, and said better.
        compared.result()
    return loaded


def outline(folder: Path) -> Checkpoint:
    """Reads everything of a folder but its weights, which takes a moment whatever its size.

    The model is on torch's `meta` device: it can be described, and asked what it is, but not run.

    Raises:
        CheckpointError: If the folder is incomplete, damaged or contradicts itself.
    """
    config, family = read_config(folder)
    return _read(folder, config, family, read_notes(folder), None, weights=False)


def _read(
    folder: Path,
    config: Config,
    family: Family,
    notes: dict[str, Any],
    dtype: torch.dtype | None,
    *,
    weights: bool = True,
) -> Checkpoint:
    files = TakenApart(folder, family.forms(config))
    report = LoadReport()
    name = _architecture(config, family, files, report)
    names = family.names(name, config)
    sources = _sources(files, names, report)
    parts = frozenset(
        part
        for part, path in family.paths.items()
        if any(ours.startswith(path) for ours in sources)
    )
    parts |= _borrowing(family, config, parts, family.architectures[name].parts - parts)
    report.absent = sorted(family.architectures[name].parts - parts)
    blueprint = _with_own_heads(family.blueprint(config, parts), notes, folder / NOTES)
    blueprint = _untie_if_different(blueprint, files, sources, report)
    model = _filled(blueprint, files, sources, names, report, dtype, weights=weights)
    if report.is_fatal:
        raise CheckpointError(
            f"{folder} does not fit its config.json: {'; '.join(report.lines())}; "
            f"take both from the same model."
        )
    tokenizer = _tokenizer(folder, family, blueprint, notes.get("tokenizer"), report)
    pooling, steps = read_pooling(folder, usual_pooling(blueprint), blueprint)
    if pooling.needs_head:
        add_head(model, pooling, steps, dtype)
    return Checkpoint(
        model=model.eval(),
        family=family,
        config={**config, **read_activation(folder)},
        tokenizer=tokenizer,
        pooling=pooling,
        report=report,
        prompts=read_prompts(folder),
        notes=notes,
        generation=read_generation(folder),
        unread=sentence_piece(folder) if tokenizer is None else None,
    )


def save(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    overwrite: bool,
    shard_bytes: int,
    card: str | None = None,
) -> None:
    """Writes a folder that Clozeworks, transformers and sentence-transformers load."""
    blueprint = checkpoint.model.blueprint
    family = checkpoint.family
    pooling = stated_pooling(checkpoint.pooling, blueprint)
    own = {name: head for name, head in blueprint.heads.items() if name not in family.paths}
    published = {name: head for name, head in blueprint.heads.items() if name not in own}
    written = family.config(dataclasses.replace(blueprint, heads=published), checkpoint.config)
    parts = blueprint.parts - own.keys()
    name = _kept_architecture(checkpoint, parts) or family.fitting(parts)
    config = {
        **family.unstated,
        **checkpoint.config,
        **written,
        "architectures": [name],
        "dtype": _dtype_name(next(checkpoint.model.parameters()).dtype),
    }
    config.pop("torch_dtype", None)  # the older name of dtype
    tied = checkpoint.model.tied()
    names = family.names(name, Config(config))
    weights = {
        names.theirs(ours, prefixed=name != family.base): tensor
        for ours, tensor in checkpoint.model.state_dict().items()
        if ours not in tied and not ours.startswith(f"heads.{SENTENCE}.")
    }
    if not tied:  # then both spellings of a bias are parameters of their own for others
        for ours, tensor in checkpoint.model.state_dict().items():
            if second := names.second(ours):
                weights[second] = tensor.clone()
    own.pop(SENTENCE, None)  # its steps are modules of their own
    with fresh_folder(folder, overwrite=overwrite) as temporary:
        write_json(temporary / "config.json", config)
        write_weights(temporary, put_together(weights, family.forms(Config(config))), shard_bytes)
        notes: dict[str, Any] = {"format": 1}
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.save(temporary, max_length=blueprint.max_length())
            notes["tokenizer"] = checkpoint.tokenizer.fingerprint
        if own:
            notes["heads"] = {name: plain(head) for name, head in own.items()}
        notes |= {key: checkpoint.notes[key] for key in KEPT if key in checkpoint.notes}
        kept = None
        if pooling.stated:
            kept = write_pooling(temporary, pooling, checkpoint.model, checkpoint.tokenizer)
        write_prompts(temporary, checkpoint.prompts, kept)
        if checkpoint.generation or blueprint.can_generate:
            write_generation(temporary, checkpoint.generation, config)
        if card is not None:
            (temporary / "README.md").write_text(card, encoding="utf-8")
        write_notes(temporary, notes)


def _architecture(config: Config, family: Family, files: WeightFiles, report: LoadReport) -> str:
    """The architecture the config names, or else the one the weights fit."""
    stated = config.get("architectures")
    if isinstance(stated, list) and stated:
        if str(stated[0]) in family.architectures:
            return str(stated[0])
        report.notes.append(
            f"the architecture {str(stated[0])!r} is not known; only its encoder is used, and saved"
        )
        return family.base
    for name, shape in family.architectures.items():
        names = family.names(name, config)
        present = {names.ours(theirs) for theirs in files}
        if all(
            any((ours or "").startswith(family.paths[part]) for ours in present)
            for part in shape.parts
        ) and shape.parts - {"pooler"}:
            report.notes.append(f"config.json names no architecture; the weights look like {name}")
            return name
    return family.base


def _sources(files: WeightFiles, names: Names, report: LoadReport) -> dict[str, str]:
    """The name of every weight of the folder here, and the published one it is read from."""
    sources: dict[str, str] = {}
    for theirs in files:
        ours = names.ours(theirs)
        if ours is None:
            (report.dropped if names.is_ignored(theirs) else report.unexpected).append(theirs)
        elif ours not in sources:
            sources[ours] = theirs
        else:  # two spellings of one weight: one of them counts
            first = sources[ours]
            same = files.equal(first, theirs)
            counts = {names.theirs(ours, prefixed=prefixed) for prefixed in (True, False)}
            # Compat: where the two differ, the second spelling is what others compute with.
            if not same and (second := names.second(ours)):
                counts = {second}
            sources[ours], other = (theirs, first) if theirs in counts else (first, theirs)
            (report.duplicates if same else report.unexpected).append(other)
    return sources


def _borrowing(family: Family, config: Config, parts: Parts, absent: Parts) -> Parts:
    """Absent heads without weights of their own, such as GPT-2's tied output."""
    if not absent:
        return absent
    model = _without_weights(family.blueprint(config, parts | absent), config.source_location)
    tied = model.tied()
    return frozenset(
        name
        for name in absent & model.heads.keys()
        if all(f"heads.{name}.{weight}" in tied for weight in model.heads[name].state_dict())
    )


def _without_weights(blueprint: Blueprint, source_location: str | Path) -> Model:
    try:
        return blueprint.build("meta")
    except RuntimeError as error:  # the product of the sizes overflows
        raise CheckpointError(
            f"{source_location}: the sizes are too large for any machine ({error}); restore the "
            "file."
        ) from error


def _with_own_heads(blueprint: Blueprint, notes: dict[str, Any], path: Path) -> Blueprint:
    """The blueprint with heads that no published architecture has, as our notes describe them."""
    stated = notes.get("heads", {})
    if not stated:
        return blueprint
    try:
        own = {str(name): read(HeadSpec, head) for name, head in stated.items()}
    except (ClozeworksError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: heads cannot be read ({error}); restore the file."
        ) from error
    return dataclasses.replace(blueprint, heads={**blueprint.heads, **own}).check()


def _untie_if_different(
    blueprint: Blueprint, files: WeightFiles, sources: dict[str, str], report: LoadReport
) -> Blueprint:
    """Unties two tables that differ although the config says they are tied."""
    head = blueprint.heads.get("vocabulary")
    copy = sources.get("heads.vocabulary.decoder.weight")
    table = sources.get("embeddings.tokens.weight")
    if not isinstance(head, Vocabulary | PlainVocabulary) or copy is None or table is None:
        return blueprint
    if not head.tied or files.equal(copy, table):
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
    *,
    weights: bool,
) -> Model:
    """The model with the folder's weights in place, without a second copy in memory.

    Unless it is to have `weights`, they are compared with the model, but not read.
    """
    model = _without_weights(blueprint, files.folder / "config.json")
    tied = model.tied()
    for copy, original in tied.items():
        # Compat: a shared weight may be stored under the name of its copy alone.
        if copy in sources and original not in sources:
            sources[original] = sources.pop(copy)
    prefixed = any(theirs.startswith(names.prefix) for theirs in files)
    state: dict[str, torch.Tensor] = {}
    stored: set[torch.dtype] = set()
    for ours, parameter in model.state_dict().items():
        theirs = sources.pop(ours, None)
        if ours in tied:
            report.duplicates += [theirs] if theirs else []
        elif theirs is None:
            report.missing.append(names.theirs(ours, prefixed=prefixed))
        elif files.shape(theirs) != tuple(parameter.shape):
            report.misshapen[theirs] = (files.shape(theirs), tuple(parameter.shape))
        else:
            stored.add(files.dtype(theirs))
            state[ours] = files.tensor(theirs) if weights else parameter
    report.unexpected += sources.values()
    report.loaded = len(state)
    if not report.is_fatal:
        if dtype is None and len(stored) > 1:
            dtype = reduce(torch.promote_types, stored)
            report.notes.append(f"stored in several precisions, all raised to {_dtype_name(dtype)}")
        if not weights:
            return model.to(dtype or next(iter(stored), torch.float32))
        if dtype is not None:
            state = {ours: tensor.to(dtype) for ours, tensor in state.items()}
        model.load_state_dict(state, strict=False, assign=True)
        model.tie()
    return model


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _tokenizer(
    folder: Path, family: Family, blueprint: Blueprint, expected: object, report: LoadReport
) -> Tokenizer | None:
    """The folder's tokenizer, checked against the weights; None if it has none."""
    if not Tokenizer.is_in(folder, family.style):
        report.notes.append("no tokenizer in the folder")
        if name := sentence_piece(folder):
            report.notes[-1] += f"; {name} {CONVERT.rstrip('.')}"
        return None
    tokenizer = Tokenizer.load(folder, style=family.style)
    rows = blueprint.embeddings.tokens
    if tokenizer.size > rows:
        raise TokenizerError(
            f"{folder}: the tokenizer has {tokenizer.size:,} entries, but the embeddings have only "
            f"{rows:,} rows; they do not belong together; restore the tokenizer files."
        )
    if tokenizer.size < rows:
        spare = counted(rows - tokenizer.size, "row")
        report.notes.append(f"the embeddings have {spare} without a token")
    if expected is not None and expected != tokenizer.fingerprint:
        raise TokenizerError(
            f"{folder}: the tokenizer is not the one this model was saved with (fingerprint "
            f"{tokenizer.fingerprint[:19]}…, saved {str(expected)[:19]}…); {advice(folder)}"
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
