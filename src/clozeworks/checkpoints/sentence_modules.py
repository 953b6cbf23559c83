"""The modules of sentence-transformers around the pooling, read and written: Dense and others.

Each has a folder with a `config.json` and, if it has weights, a `model.safetensors`. `modules.json`
names its class; the older and the newer paths of a class end in the same name.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clozeworks.checkpoints.tensors import SINGLE, WeightFiles, write_file
from clozeworks.checkpoints.whole_folder import write_json
from clozeworks.config import read_json
from clozeworks.core.heads.sentence_vectors import (
    Dense,
    TruncateDim,
    UnitLength,
    VectorDropout,
    VectorLayerNorm,
    VectorStep,
)
from clozeworks.errors import CheckpointError, UnknownName, shown
from clozeworks.text.tokenizer.tokenizer import Tokenizer

PACKAGE = "sentence_transformers.models"
# Our name of an activation, and the class that torch has for it.
_ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
    "silu": "torch.nn.modules.activation.SiLU",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "leaky_relu": "torch.nn.modules.activation.LeakyReLU",
    "relu6": "torch.nn.modules.activation.ReLU6",
    "hardswish": "torch.nn.modules.activation.Hardswish",
    "mish": "torch.nn.modules.activation.Mish",
}
# Both `torch.nn.Tanh` and the longer path are written.
_NAMED = {path.rpartition(".")[2]: name for name, path in _ACTIVATIONS.items()}
_VECTOR = "sentence_embedding"
# Modules that follow the pooling, the one that stands before it, and the one in its place.
KINDS = ("Dense", "Normalize", "LayerNorm", "Dropout")
WEIGHTS_KIND, ATTENTION_KIND = "WordWeights", "AttentionMean"
# What their weights are called in the head.
TOKEN_WEIGHTS, QUERY = "pooling.weights", "pooling.query"
ABOUT = (
    "A learned query weighs the tokens of a text. sentence-transformers has no such module and "
    "refuses this folder; Clozeworks reads it."
)
# What a step computes with: its weights by name.
Weights = Mapping[str, Tensor]


def read_step(kind: str, folder: Path, width: int) -> tuple[VectorStep, Weights]:
    """A module for vectors of a width, with its weights.

    Args:
        kind: The name of its class.
        folder: Its own folder, which need not exist if it has no settings.
        width: The width of the vectors it is given.

    Raises:
        CheckpointError: If it is a module that is not computed here, or its files are damaged.
    """
    path = folder / "config.json"
    config = read_json(path, optional=kind not in ("Dense", "LayerNorm"))
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, _VECTOR):
            raise CheckpointError(
                f"{path}: {key} is {shown(config[key])}; only {_VECTOR!r} is computed here, the "
                "vector of a text; use another model."
            )
    if kind == "Normalize":
        return UnitLength(), {}
    if kind == "Dropout":
        return VectorDropout(dropout=_rate(config, path)), {}
    inputs = _whole(config, "in_features" if kind == "Dense" else "dimension", path)
    if inputs != width:
        raise CheckpointError(
            f"{path}: it takes vectors of width {inputs:,}, and gets those of width {width:,}; "
            "restore the folder."
        )
    if kind == "LayerNorm":
        shapes: dict[str, tuple[int, ...]] = {"norm.weight": (width,), "norm.bias": (width,)}
        return VectorLayerNorm(), _read_weights(folder, shapes)
    step = Dense(
        width=_whole(config, "out_features", path),
        bias=_flag(config, "bias", True, path),
        activation=_activation(config, path),
        residual=_flag(config, "use_residual", False, path),
    )
    shapes = {"linear.weight": (step.width, width)}
    shapes |= {"linear.bias": (step.width,)} if step.bias else {}
    if step.residual and step.width != width:
        shapes["residual.weight"] = (step.width, width)
    weights = _read_weights(folder, shapes)
    if step == _first_dimensions(step.width) and _is_identity(weights["linear.weight"]):
        return TruncateDim(width=step.width), {}
    return step, weights


def read_token_weights(folder: Path, entries: int) -> Tensor:
    """How much each entry of the vocabulary counts in a mean, (V,).

    Raises:
        CheckpointError: If the file has no such numbers.
    """
    path = folder / "config.json"
    config = read_json(path)
    words, weights = config.get("vocab"), config.get("word_weights")
    usual = config.get("unknown_word_weight", 1)
    if (
        not isinstance(words, list)
        or not isinstance(weights, dict)
        or not all(isinstance(word, str) for word in words)
        or not all(map(_is_weight, (usual, *weights.values())))
    ):
        raise CheckpointError(
            f"{path} must have vocab, a list of tokens, and word_weights, a number of at least 0 "
            "for each; restore the file."
        )
    # Compat: a token that is not there may be there in small letters.
    found = [weights.get(word, weights.get(word.lower(), usual)) for word in words[:entries]]
    # Rows of the embeddings without a token have any weight.
    return torch.tensor([*found, *[usual] * (entries - len(found))], dtype=torch.float32)


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and 0 <= value < 1e30


def write_token_weights(
    folder: Path, weights: Tensor, tokenizer: Tokenizer | None
) -> dict[str, Any]:
    """Writes how much each entry counts, before a mean; returns the entry in `modules.json`."""
    size = 0 if tokenizer is None else tokenizer.size
    named = [tokenizer.token_of(number) for number in range(size)] if tokenizer else []
    words = [*named, *(f"[row {number}]" for number in range(size, len(weights)))]
    config = {
        "vocab": words,
        "word_weights": dict(zip(words, weights.tolist(), strict=True)),
        "unknown_word_weight": 1.0,
    }
    write_json(folder / f"1_{WEIGHTS_KIND}" / "config.json", config)
    return entry_of(1, f"1_{WEIGHTS_KIND}", WEIGHTS_KIND)


def read_query(folder: Path, width: int) -> Tensor:
    """The query that weighs tokens, (W,)."""
    return _read_weights(folder, {"query": (width,)})["query"]


def write_query(folder: Path, query: Tensor, include_prompt: bool) -> dict[str, Any]:
    """Writes the query that weighs tokens; returns the entry in `modules.json`.

    Its class is none of sentence-transformers, which refuses the folder rather than compute another
    vector.
    """
    name = f"1_{ATTENTION_KIND}"
    write_json(folder / name / "config.json", {"include_prompt": include_prompt, "about": ABOUT})
    write_file(folder / name / SINGLE, {"query": query})
    return entry_of(1, name, ATTENTION_KIND) | {"type": f"clozeworks.{ATTENTION_KIND}"}


def write_step(
    folder: Path, number: int, step: VectorStep, weights: Weights, width: int
) -> dict[str, Any]:
    """Writes a module, and returns its entry in `modules.json`.

    Args:
        folder: The folder of the model.
        number: Its position among the modules.
        step: The step.
        weights: Its weights.
        width: The width of the vectors it is given.
    """
    kind, config = "Normalize", {}
    if isinstance(step, TruncateDim):
        # Compat: others truncate only at the very end; a projection can stand anywhere.
        kept = min(step.width, width)
        step, weights = _first_dimensions(kept), {"linear.weight": torch.eye(kept, width)}
    if isinstance(step, Dense):
        kind, config = "Dense", {
            "in_features": width,
            "out_features": step.width,
            "bias": step.bias,
            "activation_function": _ACTIVATIONS.get(step.activation, step.activation),
        }  # fmt: skip
        config |= {"use_residual": True} if step.residual else {}
    elif isinstance(step, VectorLayerNorm):
        kind, config = "LayerNorm", {"dimension": width}
    elif isinstance(step, VectorDropout):
        kind, config = "Dropout", {"dropout": step.dropout}
    name = f"{number}_{kind}"
    if config:
        write_json(folder / name / "config.json", config)
    if weights:
        write_file(folder / name / SINGLE, weights)
    return entry_of(number, name, kind)


def entry_of(number: int, path: str, kind: str) -> dict[str, Any]:
    """What `modules.json` says of a module."""
    return {"idx": number, "name": str(number), "path": path, "type": f"{PACKAGE}.{kind}"}


def _first_dimensions(width: int) -> Dense:
    return Dense(width=width, bias=False)


def _is_identity(weight: Tensor) -> bool:
    return weight.shape[0] <= weight.shape[1] and torch.equal(
        weight, torch.eye(*weight.shape, dtype=weight.dtype)
    )


def _read_weights(folder: Path, shapes: Mapping[str, Sequence[int]]) -> Weights:
    files = WeightFiles(folder, folder.parent)
    for name, shape in shapes.items():
        if name not in files:
            raise CheckpointError(f"{folder} has no weight {name}; restore its {SINGLE}.")
        if files.shape(name) != tuple(shape):
            raise CheckpointError(
                f"{folder}: the weight {name} has the shape {list(files.shape(name))}, and its "
                f"config.json says {list(shape)}; take both from the same model."
            )
        files.dtype(name)  # complains about a type that weights cannot have
    return {name: files.tensor(name) for name in shapes}


def _activation(config: Mapping[str, Any], path: Path) -> str:
    stated = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    named = stated.rpartition(".")[2] if isinstance(stated, str) else str(stated)
    if not isinstance(stated, str) or not stated.startswith("torch.") or named not in _NAMED:
        raise UnknownName(f"{path}: activation_function", str(stated), _ACTIVATIONS.values())
    return _NAMED[named]


def _whole(config: Mapping[str, Any], key: str, path: Path) -> int:
    value = config.get(key)
    if type(value) is not int or not 1 <= value < 2**31:
        raise CheckpointError(
            f"{path}: {key} is {shown(value)}; it must be a whole number of at least 1; restore "
            "the file."
        )
    return value


def _flag(config: Mapping[str, Any], key: str, default: bool, path: Path) -> bool:
    value = config.get(key, default)
    if type(value) is not bool:
        raise CheckpointError(
            f"{path}: {key} is {shown(value)}; it must be true or false; restore the file."
        )
    return value


def _rate(config: Mapping[str, Any], path: Path) -> float:
    value = config.get("dropout", 0.2)
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise CheckpointError(
            f"{path}: dropout is {shown(value)}; it must be a number of at least 0 and below 1; "
            "restore the file."
        )
    return float(value)
