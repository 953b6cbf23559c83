"""Lets `tokenizer_config.json` decide where `tokenizer.json` says something else.

The idea: only what the config states is changed, inside the steps that the file has; all other
steps, and options the config is silent about, stay as they are.
Compat: where a config names a class, transformers makes the step anew and so loses others beside it
(digits one by one, regular expressions: SmolLM2, StarCoder), with which the model was trained.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from clozeworks.text.tokenizer.styles import ByteLevelStyle, Style, WordPieceStyle

# Classes of transformers that read the keys below, and the style each of them makes.
CLASSES: dict[str, type[Style]] = {
    **dict.fromkeys(
        ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MPNetTokenizer"),
        WordPieceStyle,
    ),
    **dict.fromkeys(
        ("RobertaTokenizer", "GPT2Tokenizer", "BartTokenizer", "LongformerTokenizer"),
        ByteLevelStyle,
    ),
}
# What each style's options are called in the config, and in the steps of tokenizer.json.
_BERT = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_SPACE = {"add_prefix_space": "add_prefix_space"}
_OFFSETS = {"trim_offsets": "trim_offsets"}
KEYS: dict[type[Style], frozenset[str]] = {
    WordPieceStyle: frozenset(_BERT),
    ByteLevelStyle: frozenset(_SPACE | _OFFSETS),
}


def kind_of(config: Mapping[str, Any], style: Style | None = None) -> type[Style] | None:
    """The style whose options a config states: by its class, else as the family says."""
    name = config.get("tokenizer_class")
    if name is not None:
        return CLASSES.get(str(name).removesuffix("Fast"))
    stated = [known for known, keys in KEYS.items() if keys & config.keys()]
    return next((known for known in stated if isinstance(style, known)), None)


def follow_config(
    config: Mapping[str, Any], style: Style | None, definition: Mapping[str, Any]
) -> bool:
    """Writes what a config states into the steps of `tokenizer.json`; says whether it changed any.

    Args:
        config: What `tokenizer_config.json` holds; null states nothing.
        style: The family's style, for configs that name no class.
        definition: What `tokenizer.json` holds, perhaps damaged; changed in place.
    """
    kind = kind_of(config, style)

    def write(part: str, types: Collection[str], options: Mapping[str, str]) -> bool:
        stated = {ours: config[key] for key, ours in options.items() if config.get(key) is not None}
        changed = False
        for step in _steps(definition.get(part)):
            differs = any(step.get(option) != value for option, value in stated.items())
            if step.get("type") in types and differs:
                step.update(stated)
                changed = True
        return changed

    if kind is WordPieceStyle:
        return write("normalizer", ["BertNormalizer"], _BERT)
    if kind is ByteLevelStyle:
        spaced = write("pre_tokenizer", ["ByteLevel"], _SPACE)
        # What trims the offsets has to know of the space that the text does not have.
        types = ["ByteLevel", "RobertaProcessing"]
        return write("post_processor", types, _SPACE | _OFFSETS) or spaced
    return False


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """The steps of a part of `tokenizer.json`, those within a sequence among them."""
    waiting = [part]
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict):
            yield step
            waiting += (
                inner for value in step.values() if isinstance(value, list) for inner in value
            )
