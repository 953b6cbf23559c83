"""How a folder says texts become vectors: the files sentence-transformers reads and writes.

`modules.json` lists the steps, `1_Pooling/config.json` the pooling; what follows it is read by
`sentence_modules`. `sentence_bert_config.json` has the length limit,
`config_sentence_transformers.json` the prompts, and how many dimensions are kept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from clozeworks.checkpoints.sentence_modules import (
    ATTENTION_KIND,
    KINDS,
    QUERY,
    TOKEN_WEIGHTS,
    WEIGHTS_KIND,
    Weights,
    entry_of,
    read_query,
    read_step,
    read_token_weights,
    write_query,
    write_step,
    write_token_weights,
)
from clozeworks.checkpoints.whole_folder import write_json
from clozeworks.config import read_any_json, read_json
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.sentence_vectors import (
    ATTENTION_MEAN,
    NAME,
    TF_IDF,
    AttentionMean,
    SentenceVectors,
    TfIdfMean,
    TruncateDim,
    UnitLength,
    VectorStep,
    check_poolings,
)
from clozeworks.core.model import Model
from clozeworks.errors import CheckpointError, SettingError, Stated, UnknownName, nearest, shown
from clozeworks.tasks.labels.activation import ACTIVATION, NEWER
from clozeworks.text.tokenizer.tokenizer import Tokenizer

TRANSFORMER = "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
TRUNCATE = "truncate_dim"
CROSS_ENCODER = "CrossEncoder"
# Our name of a mode, and theirs in the newer files (one key with a name or a list of names).
_MODES = {
    "first": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_length": "mean_sqrt_len_tokens",
    "weighted_mean": "weightedmean",
    "last": "lasttoken",
}
_NAMES = {theirs: ours for ours, theirs in _MODES.items()}
# Theirs in the older files: a true-or-false key for each.
_ENDINGS = {"cls": "_token", "max": "_tokens", "mean": "_tokens", "weightedmean": "_tokens"}
_FLAGS = {f"pooling_mode_{name}{_ENDINGS.get(name, '')}": mode for name, mode in _NAMES.items()}


@dataclass(frozen=True)
class Pooling:
    """How token vectors become one vector per text: pooled, then step by step, then scaled."""

    modes: tuple[str, ...] = ("mean",)
    normalize: bool = False
    """Whether the last step scales vectors to length 1."""
    max_length: int | None = None
    """The longest text, in tokens, the sentence model was made for."""
    lowercase: bool = False
    """Whether texts are read in small letters, whatever the tokenizer does."""
    include_prompt: bool = True
    """Whether the tokens of a prompt count in the vector."""
    steps: tuple[VectorStep, ...] = ()
    """What happens between pooling and scaling, such as a dense layer."""
    stated: bool = False
    """Whether the folder says so, or it is our default."""

    def __post_init__(self) -> None:
        check_poolings(self.modes)

    def __str__(self) -> str:
        small = ", texts in small letters" if self.lowercase else ""
        prompt = "" if self.include_prompt else ", the prompt left out"
        scaled = ", scaled to length 1" if self.normalize else ""
        usual = "the default of decoders" if self.modes == ("last",) else "the default"
        source = "as the model folder says" if self.stated else usual
        steps = "".join(f", then {step}" for step in self.steps)
        return f"{' + '.join(self.modes)} pooling{small}{prompt}{steps}{scaled} ({source})"

    @property
    def chain(self) -> SentenceVectors:
        """What is computed but for the last scaling, as a spec."""
        return SentenceVectors(modes=self.modes, steps=self.steps)

    @property
    def needs_head(self) -> bool:
        """Whether it is more than a plain pooling and a scaling."""
        return bool(self.steps) or self.chain.has_weights

    def truncated(self, width: int) -> "Pooling":
        """The same, with the first dimensions alone; vectors are scaled after that, if at all."""
        return replace(self, steps=(*self.steps, TruncateDim(width=width)))

    def with_chain(self, chain: SentenceVectors) -> "Pooling":
        """The same for texts, with another chain for vectors; they are scaled if either says so."""
        scaled = chain.steps[-1:] == (UnitLength(),)
        return replace(
            self,
            modes=chain.modes,
            steps=chain.steps[:-1] if scaled else chain.steps,
            normalize=self.normalize or scaled,
            stated=True,
        )


def usual_pooling(blueprint: Blueprint) -> Pooling:
    """The default pooling: the mean; of a decoder the last token, which alone sees the whole text.

    Of an encoder-decoder the encoder is pooled.
    """
    is_decoder = blueprint.decoder is None and blueprint.can_generate
    return Pooling(modes=("last",)) if is_decoder else Pooling()


def stated_pooling(pooling: Pooling, blueprint: Blueprint) -> Pooling:
    """A pooling with the steps that the model's own head computes; without any if it has none."""
    head = blueprint.heads.get(NAME)
    if isinstance(head, SentenceVectors):
        return pooling.with_chain(head)
    return replace(pooling, steps=()) if pooling.steps else pooling


def set_pooling(model: Model, pooling: Pooling) -> None:
    """Gives a model the head that a pooling needs, and takes away one that it does not need.

    Raises:
        SettingError: If the pooling or a step has weights that the model does not have.
    """
    if not pooling.needs_head:
        model.set_head(NAME, None)
        return
    module = pooling.chain.build(model.blueprint.width, model.blueprint.embeddings)
    have = model.sentence.state_dict() if model.sentence else {}
    if pooling.modes == (ATTENTION_MEAN,):  # which begins as a mean
        have = {QUERY: module.state_dict()[QUERY]} | have
    need = {name: value.shape for name, value in module.state_dict().items()}
    if need != {name: value.shape for name, value in have.items()}:
        parts = (*pooling.modes, *pooling.steps)
        rule, advice = "the model has no weights for it", "take the steps of `model.pooling`"
        if pooling.modes == (TF_IDF,):
            advice = "call weigh_tokens with texts"
        raise SettingError("pooling", Stated(", then ".join(map(str, parts))), rule, advice)
    add_head(model, pooling, have)


def add_head(
    model: Model, pooling: Pooling, weights: Weights, dtype: torch.dtype | None = None
) -> None:
    """Gives a model the head of a pooling.

    Args:
        model: The model; it is changed.
        pooling: The pooling, with its steps.
        weights: The weights of the head by name.
        dtype: What weights are converted to; they stay as they are if not given.
    """
    module = pooling.chain.build(model.blueprint.width, model.blueprint.embeddings)
    state = {name: value if dtype is None else value.to(dtype) for name, value in weights.items()}
    module.load_state_dict(state, assign=True)
    device = next(model.parameters()).device
    model.set_head(NAME, pooling.chain, module.to(device).train(model.training))


def add_step(model: Model, pooling: Pooling, step: VectorStep, weights: Weights) -> Pooling:
    """Adds a step after those that a model has, before vectors are scaled.

    Args:
        model: The model; it is changed.
        pooling: Its pooling, which states the steps it has.
        step: The new one.
        weights: Its weights by name.

    Returns:
        The new pooling.
    """
    have = model.sentence.state_dict() if model.sentence else {}
    own = {f"steps.{len(pooling.steps)}.{name}": value for name, value in weights.items()}
    longer = replace(pooling, steps=(*pooling.steps, step), stated=True)
    add_head(model, longer, have | own)
    return longer


class PromptPrefix(NamedTuple):
    """What is put before each text, and where it comes from in a few words."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{repr(self.text) if self.text else 'none'} ({self.reason})"


@dataclass(frozen=True)
class Prompts:
    """What a sentence model was trained to find before a text, by name."""

    texts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    """The name of the one that is used unless another is named."""
    file: Mapping[str, Any] = field(default_factory=dict)
    """The content of the folder's file, written again by `save`."""

    def with_texts(self, texts: Mapping[str, str]) -> "Prompts":
        """The same with some prompts said otherwise, also in the file."""
        if not texts:
            return self
        said = {**self.texts, **texts}
        return Prompts(said, self.default, {**self.file, "prompts": said})

    def find(self, prompt: str | None = None) -> PromptPrefix | None:
        """The prompt with a name, or a text as a prompt, or the default; None if there is none."""
        if prompt is None:
            if self.default is None:
                return None
            reason = f"{self.default}, the model folder's default"
            return PromptPrefix(self.texts[self.default], reason)
        if prompt in self.texts:
            return PromptPrefix(self.texts[prompt], f"{prompt}, as asked")
        # Trap: a misspelled name would pass for a text.
        if prompt.isidentifier() and nearest(prompt, self.texts):
            raise UnknownName("prompt", prompt, self.texts)
        return PromptPrefix(prompt, "as asked")


def is_cross_encoder(folder: Path) -> bool:
    """Whether sentence-transformers says that a folder reads two texts together."""
    return read_json(folder / PROMPTS, optional=True).get("model_type") == CROSS_ENCODER


def read_activation(folder: Path) -> dict[str, Any]:
    """What is done to the logit of a cross-encoder, as `config.json` would say it.

    Newer folders say it beside the prompts; nothing if this one does not.
    """
    stated = read_json(folder / PROMPTS, optional=True).get(ACTIVATION)
    return {} if stated is None or not is_cross_encoder(folder) else {NEWER: {ACTIVATION: stated}}


def read_prompts(folder: Path) -> Prompts:
    """The prompts of a folder; only a folder with a pooling step has a default."""
    path = folder / PROMPTS
    file = read_json(path, optional=True)
    if is_cross_encoder(folder):  # said by config.json when it is saved again
        file = {key: file[key] for key in file if key not in (ACTIVATION, "model_type")}
    stated = {} if file.get("prompts") is None else file["prompts"]
    if not isinstance(stated, dict) or not all(isinstance(v, str | None) for v in stated.values()):
        raise CheckpointError(
            f"{path}: prompts is {stated!r:.60}; it must map names to texts; correct it."
        )
    # Compat: these two names are always there, and empty unless the file says otherwise.
    texts = {name: text or "" for name, text in ({"query": "", "document": ""} | stated).items()}
    if not (folder / "modules.json").exists():
        return Prompts(texts, file=file)
    default = file.get("default_prompt_name")
    if default is not None and (not isinstance(default, str) or default not in texts):
        raise UnknownName(f"{path}: default_prompt_name", str(default), texts)
    return Prompts(texts, default, file)


def write_prompts(folder: Path, prompts: Prompts, truncate_dim: int | None = None) -> None:
    """Writes the file again, if the folder had one, or if it is needed to truncate vectors."""
    content = {key: value for key, value in prompts.file.items() if key != TRUNCATE}
    content |= {} if truncate_dim is None else {TRUNCATE: truncate_dim}
    if content:
        write_json(folder / PROMPTS, content)


def read_pooling(folder: Path, default: Pooling, blueprint: Blueprint) -> tuple[Pooling, Weights]:
    """The pooling that the folder states, or the default, and the weights of its head.

    Args:
        folder: The folder of the model.
        default: What counts if it states none.
        blueprint: That of the model.

    Raises:
        CheckpointError: If the folder has a step that is not computed here, or damaged files.
    """
    file = folder / "modules.json"
    if not file.exists():
        return default, {}
    pooling: Pooling | None = None
    steps: list[VectorStep] = []
    weights: dict[str, torch.Tensor] = {}
    width, kinds = blueprint.width, (*KINDS, WEIGHTS_KIND, "Pooling", ATTENTION_KIND)
    for kind, path in _modules(folder, file):
        if kind not in kinds:
            known = ("Transformer", "Pooling", *KINDS)
            raise CheckpointError(
                f"{file} names a {kind!r} step; Clozeworks computes {', '.join(known)} and "
                f"{WEIGHTS_KIND}; remove the step if you can do without it."
            )
        if kind in KINDS and pooling is None:
            raise CheckpointError(
                f"{file} has a {kind} step before the Pooling step; it must follow it; restore the "
                "file."
            )
        if kind not in KINDS and pooling is not None:
            raise CheckpointError(
                f"{file} has a {kind} step after the Pooling step; restore the file."
            )
        if kind == WEIGHTS_KIND:
            weights[TOKEN_WEIGHTS] = read_token_weights(path, blueprint.embeddings.tokens)
        elif kind == ATTENTION_KIND:
            weights[QUERY] = read_query(path, width)
            pooling = Pooling((ATTENTION_MEAN,), include_prompt=_includes(path), stated=True)
        elif kind == "Pooling":
            modes = _modes(read_json(path / "config.json"), path / "config.json")
            if TOKEN_WEIGHTS in weights:
                if modes != ("mean",):
                    raise CheckpointError(
                        f"{path / 'config.json'}: {WEIGHTS_KIND} before another pooling than the "
                        "mean are not computed here; use another model."
                    )
                modes = (TF_IDF,)
            pooling = Pooling(modes, include_prompt=_includes(path), stated=True)
            width *= len(modes)
        else:
            step, own = read_step(kind, path, width)
            weights |= {f"steps.{len(steps)}.{name}": value for name, value in own.items()}
            steps.append(step)
            width = step.output(width)
    if pooling is None and not steps and is_cross_encoder(folder):
        return default, {}
    if pooling is None:
        raise CheckpointError(f"{file} has no Pooling step; add one.")
    if (kept := _truncated(folder)) is not None:
        steps.append(kept)
    pooling = pooling.with_chain(SentenceVectors(modes=pooling.modes, steps=tuple(steps)))
    transformer = read_json(folder / TRANSFORMER, optional=True)
    limit = transformer.get("max_seq_length")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise CheckpointError(
            f"{folder / TRANSFORMER}: max_seq_length is {limit!r}; it must be a whole number of at "
            f"least 1."
        )
    lowercase = bool(transformer.get("do_lower_case"))
    return replace(pooling, max_length=limit, lowercase=lowercase), weights


def _modules(folder: Path, file: Path) -> Iterator[tuple[str, Path]]:
    """The modules that a folder lists after the encoder: the kind of each, and its folder."""
    entries = read_any_json(file)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CheckpointError(f"{file} must be a JSON list of steps; restore the file.")
    for number, entry in enumerate(entries):
        kind = str(entry.get("type", "")).rsplit(".", 1)[-1]
        if kind == "Transformer":
            continue
        name = str(entry.get("path", f"{number}_{kind}"))
        inside = name.isprintable() and (folder / name).resolve().is_relative_to(folder.resolve())
        if not inside:
            raise CheckpointError(
                f"{file} names the folder {name!r}; it must be inside {folder}; restore the file."
            )
        yield kind, folder / name


def _includes(path: Path) -> bool:
    """Whether the tokens of a prompt are pooled, too."""
    return read_json(path / "config.json").get("include_prompt") is not False


def _truncated(folder: Path) -> TruncateDim | None:
    """What keeps the first dimensions, if the folder says so."""
    path = folder / PROMPTS
    kept = read_json(path, optional=True).get(TRUNCATE)
    if kept is None:
        return None
    if type(kept) is not int or not 1 <= kept < 2**31:
        raise CheckpointError(
            f"{path}: {TRUNCATE} is {shown(kept)}; it must be a whole number of at least 1; "
            "correct it."
        )
    return TruncateDim(width=kept)


def write_pooling(
    folder: Path, pooling: Pooling, model: Model, tokenizer: Tokenizer | None
) -> int | None:
    """Writes what sentence-transformers needs to load the folder.

    Args:
        folder: The folder of the model.
        pooling: The pooling, with its steps.
        model: The model that has their weights.
        tokenizer: Its tokenizer.

    Returns:
        How many dimensions remain after all modules; None if all do.
    """
    modules = [entry_of(0, "", "Transformer")]
    modules += _write_modes(folder, pooling, model, tokenizer)
    steps, last = pooling.steps, None
    if pooling.normalize:
        steps = (*steps, UnitLength())
    if steps and isinstance(final := steps[-1], TruncateDim):
        steps, last = steps[:-1], final.width
    built = list(model.sentence.steps) if model.sentence else []
    width = model.blueprint.width * len(pooling.modes)
    for number, step in enumerate(steps):
        weights = built[number].state_dict() if number < len(built) else {}
        modules.append(write_step(folder, len(modules), step, weights, width))
        width = step.output(width)
    write_json(folder / "modules.json", modules)
    if pooling.max_length is not None or pooling.lowercase:
        texts = {"max_seq_length": pooling.max_length, "do_lower_case": pooling.lowercase}
        write_json(folder / TRANSFORMER, texts)
    return last


def _write_modes(
    folder: Path, pooling: Pooling, model: Model, tokenizer: Tokenizer | None
) -> list[dict[str, Any]]:
    """Writes the modules that pool; returns their entries in `modules.json`."""
    head, width = model.sentence, model.blueprint.width
    if head is not None and isinstance(head.pooling, AttentionMean):
        return [write_query(folder, head.pooling.query, pooling.include_prompt)]
    entries, modes = [], pooling.modes
    if head is not None and isinstance(head.pooling, TfIdfMean):
        entries.append(write_token_weights(folder, head.pooling.weights, tokenizer))
        modes = ("mean",)
    config: dict[str, Any] = {"word_embedding_dimension": width}
    flags = {flag: mode in modes for flag, mode in _FLAGS.items()}
    if modes == tuple(mode for flag, mode in _FLAGS.items() if flags[flag]):
        config |= flags
    else:  # flags have an order of their own; only the newer form can say another
        config["pooling_mode"] = [_MODES[mode] for mode in modes]
    config["include_prompt"] = pooling.include_prompt
    number = len(entries) + 1
    write_json(folder / f"{number}_Pooling" / "config.json", config)
    return [*entries, entry_of(number, f"{number}_Pooling", "Pooling")]


def _modes(config: Mapping[str, Any], path: Path) -> tuple[str, ...]:
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
        raise CheckpointError(f"{path} enables no pooling mode; set one of {', '.join(_FLAGS)}.")
    return modes
