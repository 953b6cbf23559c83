"""Writes the files of a tokenizer folder, so that transformers reads the same tokenizer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from clozeworks.errors import OutputError
from clozeworks.storage.atomic import write_texts
from clozeworks.storage.checksums import note_files
from clozeworks.text.tokenizer.bytes import PUBLISHED_CLASS, are_bytes, sentinels_of
from clozeworks.text.tokenizer.files import TOKEN_KEYS
from clozeworks.text.tokenizer.special import SpecialTokens
from clozeworks.text.tokenizer.stated_options import kind_of
from clozeworks.text.tokenizer.styles import ByteLevelStyle, WordPieceStyle
from clozeworks.wording import as_json

# Files that say once more what tokenizer.json and tokenizer_config.json say.
STATING = {"vocab.txt", "vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja"}
# Compat: what transformers writes for "no limit", 1e30 as a whole number.
NO_LIMIT = 1_000_000_000_000_000_019_884_624_838_656


def _is_bert(state: Mapping[str, Any], special: SpecialTokens) -> bool:
    """Says whether transformers' BertTokenizer, which rebuilds the steps, would be the same."""
    normalizer = state["normalizer"] or {}
    splitter = state["pre_tokenizer"] or {}
    return (
        state["model"]["type"] == "WordPiece"
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text") is True
        and splitter.get("type") == "BertPreTokenizer"
        and state["model"]["continuing_subword_prefix"] == "##"
        and state["model"]["max_input_chars_per_word"] == 100
        and _is_bert_template(state["post_processor"] or {}, special)
    )


def _is_bert_template(template: Mapping[str, Any], special: SpecialTokens) -> bool:
    if template.get("type") == "BertProcessing":
        return True
    pair = [
        ("SpecialToken", special.first, 0),
        ("Sequence", "A", 0),
        ("SpecialToken", special.last, 0),
        ("Sequence", "B", 1),
        ("SpecialToken", special.last, 1),
    ]

    def items(key: str) -> list[tuple[str, str, int]]:
        steps = (step for item in template.get(key, ()) for step in item.items())
        return [(kind, value["id"], value["type_id"]) for kind, value in steps]

    return items("single") == pair[:3] and items("pair") == pair


def _is_roberta(state: Mapping[str, Any]) -> bool:
    return (
        state["model"]["type"] == "BPE"
        and state["normalizer"] is None
        and (state["pre_tokenizer"] or {}).get("type") == "ByteLevel"
        and (state["post_processor"] or {}).get("type") == "RobertaProcessing"
    )


def _is_gpt(state: Mapping[str, Any]) -> bool:
    """Says whether transformers' OpenAIGPTTokenizer, which makes the steps anew, is the same."""
    normalizer = state["normalizer"] or {}
    return (
        state["model"]["type"] == "BPE"
        and state["model"]["end_of_word_suffix"] == "</w>"
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("lowercase") is True
        and (state["pre_tokenizer"] or {}).get("type") == "BertPreTokenizer"
        and state["post_processor"] is None
    )


def _loses_steps(config: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Says whether transformers, which makes the steps of a named class anew, would lose some."""
    kind = kind_of(config)
    normalizer, splitter = state["normalizer"] or {}, state["pre_tokenizer"] or {}
    if kind is ByteLevelStyle:
        is_whole = splitter.get("type") == "ByteLevel" and splitter.get("use_regex", True)
        return bool(normalizer) or not is_whole
    if kind is WordPieceStyle:
        cleans = normalizer.get("type") == "BertNormalizer" and normalizer.get("clean_text") is True
        return not cleans or splitter.get("type") != "BertPreTokenizer"
    return False


def describe(
    state: Mapping[str, Any], special: SpecialTokens, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Makes `tokenizer_config.json`: what was loaded, and over it what is true."""
    written = dict(config)
    if _loses_steps(config, state):
        del written["tokenizer_class"]
    if _is_bert(state, special):
        written.setdefault("tokenizer_class", "BertTokenizer")
        normalizer = state["normalizer"]
        written["do_lower_case"] = normalizer["lowercase"]
        written["strip_accents"] = normalizer["strip_accents"]
        written["tokenize_chinese_chars"] = normalizer["handle_chinese_chars"]
    elif _is_roberta(state):
        written.setdefault("tokenizer_class", "RobertaTokenizer")
        written["add_prefix_space"] = state["pre_tokenizer"]["add_prefix_space"]
    elif _is_gpt(state):
        written.setdefault("tokenizer_class", "OpenAIGPTTokenizer")
    elif are_bytes(state):
        written.setdefault("tokenizer_class", PUBLISHED_CLASS)
        written["extra_ids"] = sentinels_of(state)
    else:
        written.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
        written.setdefault("model_input_names", ["input_ids", "attention_mask"])
        template = (state["post_processor"] or {}).get("pair", ())
        if any(value.get("type_id") == 1 for item in template for value in item.values()):
            written["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    closed = _is_closed(state, special)
    if closed:
        written.setdefault("padding_side", "left")
    written.setdefault("model_max_length", NO_LIMIT)
    framed = _is_roberta(state) or _is_framed(state, special)
    return written | _token_names(special, config, framed, closed)


def _is_framed(state: Mapping[str, Any], special: SpecialTokens) -> bool:
    """Says whether texts stand between a first and a last token of RoBERTa's names (XLM-R)."""
    single = (state["post_processor"] or {}).get("single") or [{}]
    names: list[object] = [step.get("SpecialToken", {}).get("id") for step in single]
    return (names[0], names[-1]) == ("<s>", "</s>") == (special.first, special.last)


def _is_closed(state: Mapping[str, Any], special: SpecialTokens) -> bool:
    """Says whether the token that speaks for its text stands last (XLNet)."""
    single = (state["post_processor"] or {}).get("single") or [{}]
    last: object = single[-1].get("SpecialToken", {}).get("id")
    return last is not None and last == special.first


def _token_names(
    special: SpecialTokens, config: Mapping[str, Any], framed: bool, closed: bool
) -> dict[str, Any]:
    """The special tokens by transformers' keys; RoBERTa's are framed, XLNet's closed."""
    names: dict[str, Any] = {}
    for role, keys in TOKEN_KEYS.items():
        name = getattr(special, role)
        stated = [key for key in keys if config.get(key) is not None]
        # Compat: BERT and XLNet know cls and sep, GPT-2 and T5 begin and end, RoBERTa all four.
        is_class = closed or (name or "").startswith("[")
        usual = keys if framed else keys[:1] if is_class else keys[-1:]
        for key in (stated or usual) if name is not None else ():
            names[key] = config.get(key) or name
    return names


def write(
    folder: Path,
    backend: Backend,
    state: Mapping[str, Any],
    special: SpecialTokens,
    config: Mapping[str, Any],
) -> None:
    """Writes all files of a folder, which is made if it is not there.

    `state` is what `tokenizer.json` holds, `config` the `tokenizer_config.json` that was loaded.

    Raises:
        OutputError: If the folder cannot be written.
    """
    described = describe(state, special, config)
    contents = {
        "tokenizer.json": backend.to_str(pretty=True) + "\n",
        "tokenizer_config.json": _json(described),
        "special_tokens_map.json": _json(
            {key: value for key, value in described.items() if key.endswith("_token")}
        ),
    }
    model = state["model"]
    if model["type"] == "WordPiece":
        by_id = {index: token for token, index in model["vocab"].items()}
        # A vocabulary with empty ids, or a token with the end of a line in it, has no such file.
        whole = sorted(by_id) == list(range(len(by_id)))
        if whole and not any({"\n", "\r"} & {*token} for token in by_id.values()):
            contents["vocab.txt"] = "".join(by_id[index] + "\n" for index in range(len(by_id)))
    if _has_byte_pairs(state) and not are_bytes(state):
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
        contents["vocab.json"] = json.dumps(model["vocab"], ensure_ascii=False) + "\n"
        contents["merges.txt"] = "\n".join(["#version: 0.2", *merges]) + "\n"
    added = {token["content"]: token["id"] for token in state["added_tokens"]}
    vocabulary = model["vocab"] if isinstance(model["vocab"], Mapping) else dict(model["vocab"])
    outside = {token: number for token, number in added.items() if token not in vocabulary}
    if outside and len(contents) > 3:
        contents["added_tokens.json"] = _json(outside)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_texts(folder, contents)
        # What is left of another tokenizer would contradict this one.
        for name in STATING - contents.keys():
            (folder / name).unlink(missing_ok=True)
        note_files(folder, contents.keys(), STATING - contents.keys())
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written ({error.strerror}); the tokenizer needs a folder with "
            "write permission; choose another."
        ) from None


def _has_byte_pairs(state: Mapping[str, Any]) -> bool:
    of_bytes = '"ByteLevel"' in json.dumps(state["pre_tokenizer"])
    return _is_gpt(state) or (state["model"]["type"] == "BPE" and of_bytes)


def _json(value: Mapping[str, Any]) -> str:
    return as_json(value, indent=2, sort_keys=True) + "\n"
