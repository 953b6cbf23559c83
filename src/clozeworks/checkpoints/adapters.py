"""LoRA adapters in a folder of their own, in the layout of PEFT: read, and written.

The folder holds what a fine-tuning run changed and nothing of the base model: the two low-rank
matrices of every adapted projection, and all weights of the heads and the pooler, which were
trained in full. PEFT loads what is written here, and what PEFT writes is read here.

Where one published weight is several projections here (ModernBERT's Wqkv), each piece has a pair of
its own under the published name with `:piece` after it. PEFT cannot load such a folder, which says
so. A pair that PEFT trained for the whole weight is read like any other.
"""

import copy
import dataclasses
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from torch import Tensor

from clozeworks import config as settings
from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.checkpoints.tasks import noted_task, published_names, with_task
from clozeworks.checkpoints.tensors import write_file
from clozeworks.checkpoints.whole_folder import fresh_folder, write_json
from clozeworks.core.model import Model
from clozeworks.errors import CheckpointError, shown
from clozeworks.families.family import Config
from clozeworks.families.weights import OWN, Names
from clozeworks.storage.checksums import check_files, read_notes, write_notes
from clozeworks.tasks import answer, classify, tag

CONFIG, WEIGHTS, README = "adapter_config.json", "adapter_model.safetensors", "README.md"
# What stands before the names of the model, and before the piece of a weight.
_PREFIX, _PIECE = "base_model.model.", ":"
_PIECES_NOTE = """\
This adapter changes pieces of weights that are published as one, such as `Wqkv:query`. PEFT cannot
load it. Clozeworks can: `load_adapter(model, folder)`; and the folder above holds the whole model,
merged, for every library.
"""
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"
_TASKS = {classify.FAMILY_HEAD: "SEQ_CLS", tag.HEAD: "TOKEN_CLS", answer.HEAD: "QUESTION_ANS"}
# Settings of PEFT that change what is computed, and the only values that are computed here.
_ONLY: dict[str, Collection[Any]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "fan_in_fan_out": (False,),
    "use_dora": (False,),
    "use_rslora": (False,),
    "rank_pattern": ({},),
    "alpha_pattern": ({},),
}

# The two thin matrices of a projection: (R, I) and (O, R).
LowRankPair = tuple[Tensor, Tensor]


class HasCheckpoint(Protocol):
    """What `cw.load` returns, as far as it matters here."""

    checkpoint: Checkpoint


def load_adapter(model: HasCheckpoint, folder: str | Path) -> None:
    """Merges an adapter into a loaded model, which then also has its head and its task.

    Args:
        model: The model the adapter was trained on. It holds another network after this.
        folder: The adapter, as `write_adapter` or PEFT wrote it.

    Raises:
        CheckpointError: If the adapter cannot be read, or belongs to another model.
    """
    model.checkpoint = _merged(model.checkpoint, Path(folder))


def write_adapter(
    checkpoint: Checkpoint,
    folder: Path,
    pairs: Mapping[str, LowRankPair],
    *,
    alpha: float,
    dropout: float,
    base: str,
) -> None:
    """Writes what a run changed.

    Args:
        checkpoint: The trained model, merged or not.
        folder: The folder to make.
        pairs: The two low-rank matrices of every adapted projection, by its name here.
        alpha: The product is multiplied by alpha / rank.
        dropout: The dropout before the first matrix.
        base: The folder or name of the model before the run.
    """
    names = published_names(checkpoint.family, checkpoint.config, checkpoint.model.blueprint)
    weights: dict[str, Tensor] = {}
    for name, (down, up) in pairs.items():
        theirs = _PREFIX + _module(names.theirs(f"{name}.weight", prefixed=True))
        weights[theirs + _DOWN], weights[theirs + _UP] = down, up
    whole: dict[str, Tensor] = _trained_whole(checkpoint.model)
    for name, tensor in whole.items():
        weights[_PREFIX + names.theirs(name, prefixed=True)] = tensor
    first = next(iter(pairs.values()))[0]
    # PEFT takes modules whole, so the outermost one beside the body is named: classifier, pooler.
    heads = {
        names.theirs(name, prefixed=False).partition(".")[0]
        for name in whole
        if not names.theirs(name, prefixed=True).startswith(OWN)
    }
    config = {
        "peft_type": "LORA",
        "task_type": next(
            (kind for head, kind in _TASKS.items() if head in checkpoint.model.blueprint.heads),
            None,
        ),
        "base_model_name_or_path": base,
        "r": len(first),
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": _targets(names, checkpoint.model, pairs),
        "modules_to_save": sorted(heads),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    notes: dict[str, Any] = {"format": 1}
    if "task" in checkpoint.notes:
        notes["task"] = checkpoint.notes["task"]
    with fresh_folder(folder) as temporary:
        write_json(temporary / CONFIG, config)
        if any(_PIECE in name for name in weights):
            (temporary / README).write_text(_PIECES_NOTE, encoding="utf-8")
        write_file(temporary / WEIGHTS, weights)
        write_notes(temporary, notes)


def _merged(checkpoint: Checkpoint, folder: Path) -> Checkpoint:
    """A copy of a checkpoint with an adapter merged into it."""
    config, weights, notes = _config(folder), read_weights(folder), read_notes(folder)
    task = noted_task(notes, str(folder))
    if task is None:
        checkpoint = dataclasses.replace(checkpoint, model=copy.deepcopy(checkpoint.model))
    else:
        checkpoint = with_task(checkpoint, task)
    names = published_names(checkpoint.family, checkpoint.config, checkpoint.model.blueprint)
    own = checkpoint.model.state_dict()
    forms = checkpoint.family.forms(Config(checkpoint.config))
    scale = config["lora_alpha"] / config["r"]
    changed: dict[str, Tensor] = {}
    for theirs, tensor in weights.items():
        if theirs.endswith(_UP):
            continue
        down = theirs.endswith(_DOWN)
        plain = theirs.removeprefix(_PREFIX)
        plain = _weight(names, plain.removesuffix(_DOWN)) if down else plain
        form = next((form for form in forms if plain.endswith(form.ending)), None)
        pieces = [f"{plain}{_PIECE}{piece}" for piece in form.pieces] if form else [plain]
        modules = [ours for piece in pieces if (ours := names.ours(piece)) in own]
        if len(modules) < len(pieces):
            raise CheckpointError(
                f"{folder}: {theirs} has no place in this model; load the model the adapter was "
                f"trained on ({config.get('base_model_name_or_path')!r}), with its head."
            )
        if down:
            up = weights.get(theirs.removesuffix(_DOWN) + _UP)
            rank = config["r"]
            fits = up is not None and (up.ndim, up.shape[1:], tensor.shape[:1]) == (
                2,
                (rank,),
                (rank,),
            )
            if up is None or not fits or tensor.ndim != 2:
                raise CheckpointError(
                    f"{folder}: {theirs} has no partner of rank {config['r']}; restore {WEIGHTS}."
                )
            wide = torch.promote_types(up.dtype, torch.float32)
            tensor = scale * (up.to(wide) @ tensor.to(wide))
        whole = [own[ours] for ours in modules]
        expected = (sum(map(len, whole)), *whole[0].shape[1:]) if form else whole[0].shape
        if tensor.shape != expected:
            raise CheckpointError(
                f"{folder}: {theirs} is for a weight of {tuple(tensor.shape)}, and the model's is "
                f"{tuple(expected)}; load the model the adapter was trained on."
            )
        for ours, part in zip(modules, form.apart(tensor) if form else [tensor], strict=True):
            changed[ours] = _sum(own[ours], part) if down else part
    missing = sorted(_trained_whole(checkpoint.model).keys() - changed.keys()) if task else []
    if missing:
        raise CheckpointError(
            f"{folder} lacks {missing[0]}, which its task needs; restore {WEIGHTS}."
        )
    check_files(folder, notes)
    with torch.no_grad():
        for ours, tensor in changed.items():
            own[ours].copy_(tensor)
    return checkpoint


def _sum(weight: Tensor, learned: Tensor) -> Tensor:
    """A weight and the learned difference, in float32 or wider."""
    return weight.to(torch.promote_types(weight.dtype, learned.dtype)) + learned.to(weight.device)


def _module(weight: str) -> str:
    """The published name of the module that holds a weight, or a piece of one."""
    name, mark, piece = weight.partition(_PIECE)
    return name.removesuffix(".weight") + mark + piece


def _weight(names: Names, module: str) -> str:
    """The published name of the weight of a module, or of a piece of it."""
    name, mark, piece = module.partition(_PIECE)
    weight = f"{name}.weight{mark}{piece}"
    return module if mark and names.ours(weight) is None else weight


def _trained_whole(model: Model) -> dict[str, Tensor]:
    """The weights of heads and pooler, except those tied to the embeddings."""
    tied = model.tied()
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if name.startswith(("heads.", "pooler.")) and name not in tied
    }


def _targets(names: Names, model: Model, pairs: Iterable[str]) -> list[str]:
    """The shortest endings that match the adapted projections and nothing else."""
    every = {
        _module(names.theirs(name, prefixed=True))
        for name in model.state_dict()
        if name.endswith(".weight")
    }
    wanted = {_module(names.theirs(f"{name}.weight", prefixed=True)) for name in pairs}
    longest = max(name.count(".") + 1 for name in wanted)
    for parts in range(1, longest):
        endings = {".".join(name.split(".")[-parts:]) for name in wanted}
        matches = {name for name in every if f".{name}".endswith(tuple(f".{e}" for e in endings))}
        if matches == wanted:
            return sorted(endings)
    return sorted(wanted)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no {CONFIG}, so it is not an adapter; name the folder of one, such as "
            "RUN/model/adapter."
        )
    config = settings.read_json(path)
    for key, allowed in _ONLY.items():
        value = config.get(key)
        if value is not None and value not in allowed:
            only = next(iter(allowed))
            raise CheckpointError(
                f"{path}: {key} is {shown(value)}; Clozeworks computes only {only!r}; merge the "
                "adapter with the library that wrote it, and load the result."
            )
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if type(rank) is not int or not 0 < rank < 2**31:
        raise CheckpointError(
            f"{path}: r is {shown(rank)}; it must be a whole number above 0; restore the file."
        )
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not is_number or not 0 < cast(float, alpha) <= sys.float_info.max:
        raise CheckpointError(
            f"{path}: lora_alpha is {shown(alpha)}; it must be a number above 0; restore the file."
        )
    return config


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of an adapter.

    Raises:
        CheckpointError: If they cannot be read.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no {WEIGHTS}; only safetensors are read; save the adapter as such."
        )
    try:
        # Sorted, because the library's order is another in every process.
        return dict(sorted(load_bytes(path.read_bytes()).items()))
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is damaged or was cut short ({error}); copy it again."
        ) from error
