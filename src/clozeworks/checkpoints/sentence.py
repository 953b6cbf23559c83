"""How a folder says texts become vectors: the files sentence-transformers reads and writes.

`modules.json` lists the steps, `1_Pooling/config.json` the pooling, a `Normalize` step the last
scaling, `sentence_bert_config.json` the length limit, `config_sentence_transformers.json` the
prompts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from clozeworks.checkpoints.whole_folder import write_json
from clozeworks.config import read_any_json, read_json
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.pooling import check_modes
from clozeworks.errors import CheckpointError, UnknownName, nearest

TRANSFORMER = "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
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
    """How token vectors become one vector per text."""

    modes: tuple[str, ...] = ("mean",)
    normalize: bool = False
    max_length: int | None = None
    """The longest text, in tokens, the sentence model was made for."""
    lowercase: bool = False
    """Whether texts are read in small letters, whatever the tokenizer does."""
    include_prompt: bool = True
    """Whether the tokens of a prompt count in the vector."""
    stated: bool = False
    """Whether the folder says so, or it is our default."""

    def __post_init__(self) -> None:
        check_modes(self.modes)

    def __str__(self) -> str:
        small = ", texts in small letters" if self.lowercase else ""
        prompt = "" if self.include_prompt else ", the prompt left out"
        scaled = ", scaled to length 1" if self.normalize else ""
        usual = "the default of decoders" if self.modes == ("last",) else "the default"
        source = "as the model folder says" if self.stated else usual
        return f"{' + '.join(self.modes)} pooling{small}{prompt}{scaled} ({source})"


def usual_pooling(blueprint: Blueprint) -> Pooling:
    """The default pooling: the mean; of a decoder the last token, which alone sees the whole text.

    Of an encoder-decoder the encoder is pooled.
    """
    is_decoder = blueprint.decoder is None and blueprint.can_generate
    return Pooling(modes=("last",)) if is_decoder else Pooling()


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


def read_prompts(folder: Path) -> Prompts:
    """The prompts of a folder; only a folder with a pooling step has a default."""
    path = folder / PROMPTS
    file = read_json(path, optional=True)
    stated = {} if file.get("prompts") is None else file["prompts"]
    if not isinstance(stated, dict) or not all(isinstance(v, str | None) for v in stated.values()):
        raise CheckpointError(
            f"{path}: prompts is {stated!r:.60}; it must map names to texts; correct it."
        )
    # Compat: these two names are always there, and empty unless the file says otherwise.
    texts = {name: text or "" for name, text in ({"query": "", "document": ""} | stated).items()}
    if not (folder / "modules.json").exists():
        return Prompts(texts, file=file)
    if file.get("truncate_dim") is not None:
        raise CheckpointError(
            f"{path}: truncate_dim is {file['truncate_dim']!r}; it would change every vector and "
            f"Clozeworks does not compute it; remove the key, and cut the vectors yourself."
        )
    default = file.get("default_prompt_name")
    if default is not None and (not isinstance(default, str) or default not in texts):
        raise UnknownName(f"{path}: default_prompt_name", str(default), texts)
    return Prompts(texts, default, file)


def write_prompts(folder: Path, prompts: Prompts) -> None:
    """Writes the file again, if the folder had one."""
    if prompts.file:
        write_json(folder / PROMPTS, prompts.file)


def read_pooling(folder: Path, default: Pooling) -> Pooling:
    """The pooling that the folder states, or the default."""
    file = folder / "modules.json"
    if not file.exists():
        return default
    steps = read_any_json(file)
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise CheckpointError(f"{file} must be a JSON list of steps; restore the file.")
    modes: tuple[str, ...] = ()
    normalize, include_prompt = False, True
    for step in steps:
        kind = str(step.get("type", "")).rsplit(".", 1)[-1]
        if kind == "Pooling":
            name = str(step.get("path", "1_Pooling"))
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise CheckpointError(
                    f"{file} names the folder {name!r}; it must be inside {folder}; restore the "
                    "file."
                )
            path = folder / name / "config.json"
            config = read_json(path)
            modes = _modes(config, path)
            include_prompt = config.get("include_prompt") is not False
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise CheckpointError(
                f"{file} names a {kind!r} step; Clozeworks computes Transformer, Pooling and "
                f"Normalize; remove the step if you can do without it."
            )
    if not modes:
        raise CheckpointError(f"{file} has no Pooling step; add one.")
    transformer = read_json(folder / TRANSFORMER, optional=True)
    limit = transformer.get("max_seq_length")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise CheckpointError(
            f"{folder / TRANSFORMER}: max_seq_length is {limit!r}; it must be a whole number of at "
            f"least 1."
        )
    return Pooling(
        modes=modes,
        normalize=normalize,
        max_length=limit,
        lowercase=bool(transformer.get("do_lower_case")),
        include_prompt=include_prompt,
        stated=True,
    )


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
        config["pooling_mode"] = [_MODES[mode] for mode in pooling.modes]
    config["include_prompt"] = pooling.include_prompt
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", config)
    if pooling.max_length is not None or pooling.lowercase:
        texts = {"max_seq_length": pooling.max_length, "do_lower_case": pooling.lowercase}
        write_json(folder / TRANSFORMER, texts)


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
