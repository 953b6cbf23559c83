"""New models: a published size with fresh weights, for your own tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.checkpoints.report import LoadReport
from clozeworks.checkpoints.sentence import usual_pooling
from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.initialize import initialize
from clozeworks.errors import MISSING, SettingError, Stated, UnknownName
from clozeworks.families.family import Config, published_sizes, vocabulary_size
from clozeworks.language_model.model import LanguageModel
from clozeworks.objectives.teacher_forcing import DECODER
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# The config's entry for the standard deviation of first weights.
SPREAD = "initializer_range"
# How long texts are in training; with rotary positions the network itself does not know it.
PLACES = "max_position_embeddings"
# Settings that follow from something else, and what determines them.
DECIDED = {"model_type": "the size", "vocab_size": "the tokenizer"}


def new(
    size: str,
    tokenizer: Tokenizer | str | Path | None = None,
    *,
    heads: Sequence[str] | None = None,
    seed: int = 0,
    **changes: Any,
) -> LanguageModel:
    """A model of a published size with fresh weights, for your own tokenizer.

    Args:
        size: A published size such as bert-tiny; `clozeworks show` lists them.
        tokenizer: A tokenizer or its folder; it decides the vocabulary size. Sizes whose tokens are
            bytes, as byt5-small, need none.
        heads: Which parts stand beside the encoder; if not given its vocabulary head, and the
            decoder where the family has one.
        seed: Two models with the same seed are equal.
        changes: Entries of the config to replace, for example hidden_size=256.
    """
    if not 0 <= seed < 2**63:
        raise SettingError("seed", seed, "it must be at least 0 and below 2**63")
    known = published_sizes()
    if size not in known:
        raise UnknownName("size", size, known)
    family = known[size]
    if isinstance(heads, str):
        raise SettingError("heads", heads, "it must be a list of names", f"write [{heads!r}]")
    decoder = family.paths.keys() & {DECODER}
    if heads is None:
        heads = (HEAD, *decoder)
    if HEAD in heads and not decoder <= set(heads):
        rule = f"the vocabulary head of {size} stands on its decoder"
        advice = f"add {DECODER}, or leave {HEAD} out for the encoder alone"
        raise SettingError("heads", Stated(", ".join(heads)), rule, advice)
    unknown = set(heads) - set(family.paths)
    if unknown:
        raise UnknownName("head", min(unknown), family.paths)
    if tokenizer is None:
        if size not in family.of_bytes:
            advice = "or choose a size whose tokens are bytes, such as byt5-small"
            raise SettingError(
                "tokenizer",
                MISSING,
                f"{size} needs one",
                f"give a tokenizer or its folder, {advice}",
            )
        tokenizer = Tokenizer.of_bytes()
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = Tokenizer.load(tokenizer, style=family.style)
    base = family.blueprint(family.published(size), frozenset(heads))
    settable = family.config(base).keys() - DECIDED.keys() | {SPREAD}
    settable |= {PLACES} & family.published(size).keys()
    for key, value in changes.items():
        if key in DECIDED:
            raise SettingError(key, value, f"{DECIDED[key]} determines it", "leave it out")
        if key not in settable:
            raise UnknownName("setting", key, settable)
    values = {SPREAD: 0.02, **family.published(size), **changes}
    std = Config(values, size).number(SPREAD, 0.02)
    if PLACES in values:
        Config(values, size).whole(PLACES, 0)  # complains
    if "pad_token_id" in values and values["pad_token_id"] != tokenizer.pad_id:
        rule = f"the tokenizer's is {tokenizer.pad_id}, and {size} counts positions from it"
        advice = "train the tokenizer with --kind bpe"
        raise SettingError("pad_token_id", values["pad_token_id"], rule, advice)
    blueprint = family.blueprint(Config(values, size), frozenset(heads))
    blueprint = vocabulary_size(blueprint, tokenizer.size)
    try:
        model = blueprint.build()
    except RuntimeError as error:  # how torch says that memory cannot be had
        rule = f"with these settings it is too large for this machine ({error})"
        raise SettingError("size", size, rule, "lower them") from error
    initialize(model, seed=seed, std=std, stds=family.stds(blueprint))
    config = {
        **values,
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.first_id,
        "eos_token_id": tokenizer.last_id,
    }
    checkpoint = Checkpoint(
        model=model.eval(),
        family=family,
        config=config,
        tokenizer=tokenizer,
        pooling=usual_pooling(blueprint),
        report=LoadReport(),
    )
    return LanguageModel(checkpoint, size)
