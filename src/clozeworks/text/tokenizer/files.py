"""Reads a tokenizer folder, whichever of the usual files it has, and says which line is wrong."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from clozeworks import config as settings
from clozeworks.errors import TokenizerError, shown
from clozeworks.storage.checksums import check_files, read_notes
from clozeworks.text.tokenizer.bytes import PUBLISHED_CLASS, byte_tokens
from clozeworks.text.tokenizer.definition import check_id, read_definition
from clozeworks.text.tokenizer.library import library
from clozeworks.text.tokenizer.sentencepiece import (
    CAMEMBERT_PIECES,
    NUMBERINGS,
    T5_PIECES,
    XLM_ROBERTA_PIECES,
    PieceNumbering,
    piece_tokens,
)
from clozeworks.text.tokenizer.special import GPT2_TOKENS, SpecialTokens
from clozeworks.text.tokenizer.stated_options import KEYS, follow_config
from clozeworks.text.tokenizer.styles import (
    CAMEMBERT_STYLE,
    GPT2_STYLE,
    QWEN2_STYLE,
    AnsweringUnigramStyle,
    ByteLevelStyle,
    CharacterPairStyle,
    FramedUnigramStyle,
    Style,
    WordPieceStyle,
)
from clozeworks.text.tokenizer.vocabulary_files import (
    Repeats,
    check_beside,
    read_byte_pairs,
    read_word_list,
)
from clozeworks.wording import shortened

# Files of which a folder with a tokenizer has one at least, unless its tokens are bytes.
FILES = ("tokenizer.json", "vocab.txt", "vocab.json")
# Files of SentencePiece, of which those of some families are read.
SENTENCE_PIECE = ("spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer.model")
CONVERT = (
    "is a SentencePiece model; tokenizer.json must stand beside it; have transformers write it: "
    "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
)

# Every file that is read here, if a folder has it.
READ = frozenset(
    {
        *FILES, *SENTENCE_PIECE, "merges.txt", "added_tokens.json", "tokenizer_config.json",
        "special_tokens_map.json", "chat_template.jinja",
    }
)  # fmt: skip

# Each file of a folder may be absent; what is wrong with one is wrong with the tokenizer.
read_text = partial(settings.read_text, error=TokenizerError)
read_object = partial(settings.read_json, error=TokenizerError, optional=True)

# The keys of tokenizer_config.json that name a token, best first.
TOKEN_KEYS: dict[str, tuple[str, ...]] = {
    "pad": ("pad_token",),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
    "first": ("cls_token", "bos_token"),
    "last": ("sep_token", "eos_token"),
}
WELL_KNOWN: dict[str, tuple[str, ...]] = {
    "pad": ("[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "first": ("[CLS]", "<s>", "<|endoftext|>"),
    "last": ("[SEP]", "</s>", "<|endoftext|>"),
}


# What was read last, by the content of all files. Trap: the library never gives back what a
# tokenizer remembers of the words it has split (version 0.23), so that loading a model again and
# again would take more memory each time.
_KEPT = 2
_read: OrderedDict[bytes, tuple[Backend, SpecialTokens, dict[str, Any]]] = OrderedDict()
_reading = Lock()


def read_folder(
    folder: Path, style: Style | None, repeats: Repeats
) -> tuple[Backend, SpecialTokens, dict[str, Any]]:
    """What a folder says: the tokenizer, its special tokens, `tokenizer_config.json`.

    `Tokenizer.load` explains the arguments. The tokenizer may be one that others use, too.
    """
    content = blake2b(repr((style, repeats)).encode(), digest_size=32)
    for path in filter(Path.is_file, sorted(folder / name for name in READ)):
        with suppress(OSError):  # where it matters it is complained about below
            content.update(f"{path.name} {path.stat().st_size}".encode() + path.read_bytes())
    with _reading:
        found = _read.pop(content.digest(), None) or _read_files(folder, style, repeats)
        _read[content.digest()] = found
        while len(_read) > _KEPT:
            _read.popitem(last=False)
    notes = read_notes(folder, TokenizerError)
    check_files(folder, notes, lambda name: name in READ, TokenizerError)
    return found


def _read_files(
    folder: Path, style: Style | None, repeats: Repeats
) -> tuple[Backend, SpecialTokens, dict[str, Any]]:
    config = _read_config(folder / "tokenizer_config.json")
    stated = {**read_object(folder / "special_tokens_map.json"), **config}
    if (folder / "tokenizer.json").is_file():
        path = folder / "tokenizer.json"
        backend, definition = read_definition(path, partial(follow_config, config, style))
        check_beside(folder, type(backend.model).__name__, definition["model"])
    elif (folder / "vocab.txt").is_file():
        style = _wordpiece_style(stated, style)
        unknown = style.special.unknown or "[UNK]"
        backend = style.build(read_word_list(folder / "vocab.txt", unknown, repeats))
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        vocabulary, merges = read_byte_pairs(folder)
        style = _byte_pair_style(stated, vocabulary, style, folder)
        backend = style.build(vocabulary, merges)
    elif config.get("tokenizer_class") == PUBLISHED_CLASS:
        backend = byte_tokens(config, str(folder / "tokenizer_config.json"))
    elif (numbering := _numbering(folder, config, style)) is not None:
        backend = piece_tokens(folder, numbering, config)
    else:
        raise _without_files(folder)
    with library(str(folder)):
        _add_stated(backend, config, folder)
    vocabulary = backend.get_vocab(with_added_tokens=True)
    special = special_tokens(stated, vocabulary, style, special_names(backend))
    return backend, special, config


def holds_tokenizer(folder: Path, style: Style | None = None) -> bool:
    """Says whether a folder holds a tokenizer, or says that it needs none."""
    if any((folder / name).exists() for name in FILES):
        return True
    config = read_object(folder / "tokenizer_config.json")
    is_byt5 = config.get("tokenizer_class") == PUBLISHED_CLASS
    return is_byt5 or _numbering(folder, config, style) is not None


def special_names(backend: Backend) -> list[str]:
    """The tokens that a backend knows as special, in the order of their ids."""
    added = sorted(backend.get_added_tokens_decoder().items())
    return [token.content for _, token in added if token.special]


def _without_files(folder: Path) -> TokenizerError:
    """Says that a folder has no tokenizer, or one that must be converted."""
    name = sentence_piece(folder)
    if name is not None:
        return TokenizerError(f"{folder / name} {CONVERT}")
    return TokenizerError(
        f"{folder} has no tokenizer; it must hold tokenizer.json, or vocab.txt, or "
        "vocab.json with merges.txt; copy the files there or name another folder."
    )


def _read_config(path: Path) -> dict[str, Any]:
    """Reads `tokenizer_config.json`; newer folders have `chat_template.jinja` beside it."""
    config: dict[str, Any] = read_object(path)
    chat_template = path.with_name("chat_template.jinja")
    if chat_template.is_file():
        config["chat_template"] = read_text(chat_template)
    for key in sorted(frozenset().union(*KEYS.values()) & config.keys()):
        if not isinstance(config[key], bool | None):
            raise TokenizerError(
                f"{path}: {key} is {shown(config[key])}; it must be true or false; correct it."
            )
    return config


def token_name(value: Any) -> str | None:
    """Reads a token's name, written as a string or as `{"content": …}`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _byte_pair_style(
    config: Mapping[str, Any], vocabulary: Mapping[str, int], style: Style | None, folder: Path
) -> ByteLevelStyle | CharacterPairStyle:
    """Makes the style of a `vocab.json` folder: pairs of characters (GPT), or of bytes."""
    pairs = style if isinstance(style, CharacterPairStyle) else CharacterPairStyle()
    stated = str(config.get("tokenizer_class", "")).removesuffix("Fast")
    ends = style is pairs or (
        not isinstance(style, ByteLevelStyle)
        and any(piece.endswith(pairs.ending) for piece in vocabulary)
    )
    if stated == "OpenAIGPTTokenizer" or (not stated and ends):
        return replace(pairs, special=_named(pairs.special, config))
    return _byte_level_style(config, vocabulary, style, folder)


def sentence_piece(folder: Path) -> str | None:
    """Names the SentencePiece model of a folder, if it has one."""
    return next((name for name in SENTENCE_PIECE if (folder / name).is_file()), None)


def _numbering(
    folder: Path, config: Mapping[str, Any], style: Style | None
) -> PieceNumbering | None:
    """How the pieces of a folder's SentencePiece model are numbered; None if it cannot be read."""
    stated = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    usual: PieceNumbering | None = None
    if isinstance(style, AnsweringUnigramStyle):
        usual = T5_PIECES
    elif isinstance(style, FramedUnigramStyle):
        is_camembert = style.special == CAMEMBERT_STYLE.special
        usual = CAMEMBERT_PIECES if is_camembert else XLM_ROBERTA_PIECES
    by_class = {name: known for known in NUMBERINGS for name in known.classes}
    numbering = by_class.get(stated) if stated else usual
    return numbering if numbering and (folder / numbering.file).is_file() else None


def special_tokens(
    config: Mapping[str, Any],
    vocabulary: Mapping[str, int],
    style: Style | None,
    added: Sequence[str] = (),
) -> SpecialTokens:
    """Finds the special tokens: as stated, else as the style says, else by well-known spelling.

    Args:
        config: `tokenizer_config.json`, with `special_tokens_map.json` beneath it.
        vocabulary: All tokens; a name that is not here does not count.
        style: The family's style.
        added: All tokens the tokenizer treats as special; those without a role are extra.
    """
    by_role: dict[str, str | None] = {}
    for role, keys in TOKEN_KEYS.items():
        stated = [token_name(config[key]) for key in keys if config.get(key) is not None]
        usual = [] if style is None else [getattr(style.special, role)]
        # A key that is there with null says that there is no such token.
        denied = not stated and any(key in config for key in keys)
        names = [name for name in (*stated, *usual, *WELL_KNOWN[role]) if name in vocabulary]
        by_role[role] = names[0] if names and not denied else None
    extra = tuple(name for name in added if name not in by_role.values())
    return SpecialTokens(**by_role, extra=extra)


def _add_stated(backend: Backend, config: Mapping[str, Any], folder: Path) -> None:
    """Adds tokens that the side files state and the vocabulary lacks, under the stated ids."""
    stated = {
        **_added_tokens(folder / "added_tokens.json"),
        **_added_tokens_decoder(folder / "tokenizer_config.json", config),
    }
    for name, (index, token, source) in sorted(stated.items(), key=lambda item: item[1][0]):
        actual, there = backend.token_to_id(name), "it has the id {:,} in the vocabulary"
        if actual is None:
            if token.special:
                backend.add_special_tokens([token])
            else:
                backend.add_tokens([token])
            actual, there = backend.token_to_id(name), "it would follow the vocabulary as {:,}"
        if actual != index:
            actual_text = "it cannot be added" if actual is None else there.format(actual)
            raise TokenizerError(
                f"{source}: the id of {shortened(repr(name))} is {index:,}; {actual_text}; check "
                "that the file belongs to this vocabulary."
            )


# A token of a side file: its id, itself, and the file.
_Stated = dict[str, tuple[int, AddedToken, Path]]


def _added_tokens(path: Path) -> _Stated:
    """What `added_tokens.json` states."""
    stated: _Stated = {}
    for name, index in read_object(path).items():
        check_id(path, name, index)
        stated[name] = (index, AddedToken(name, normalized=False), path)
    return stated


def _added_tokens_decoder(path: Path, config: Mapping[str, Any]) -> _Stated:
    """What `added_tokens_decoder` of `tokenizer_config.json` states."""
    entries = config.get("added_tokens_decoder") or {}
    if not isinstance(entries, Mapping):
        raise TokenizerError(
            f"{path}: added_tokens_decoder is {shortened(repr(entries))}; it must have an entry "
            "for each id; correct it."
        )
    stated: _Stated = {}
    for key, entry in entries.items():
        content = token_name(entry)
        if content is None or not isinstance(entry, Mapping):
            continue
        if not (key.isascii() and key.isdecimal() and len(key) <= 10):
            raise TokenizerError(
                f"{path}: added_tokens_decoder has {shortened(repr(key))}; its keys are ids, "
                "whole numbers from 0; correct it."
            )
        flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
        token = AddedToken(content, **{flag: bool(entry[flag]) for flag in flags if flag in entry})
        stated[content] = (int(key), token, path)
    return stated


def _named(special: SpecialTokens, config: Mapping[str, Any]) -> SpecialTokens:
    """Lets the names a config states replace those of a style."""
    stated: dict[str, str | None] = {}
    for role, keys in TOKEN_KEYS.items():
        names = [token_name(config.get(key)) for key in keys]
        stated[role] = next((name for name in names if name), getattr(special, role))
    return SpecialTokens(**stated, extra=special.extra)


def _prefix_space(config: Mapping[str, Any], style: Style | None) -> bool:
    usual = style.add_prefix_space if isinstance(style, ByteLevelStyle) else False
    stated = config.get("add_prefix_space")
    return usual if stated is None else bool(stated)


def _wordpiece_style(config: Mapping[str, Any], style: Style | None) -> WordPieceStyle:
    """Makes the style of a `vocab.txt` folder: what the config states, else the family's."""
    usual = style if isinstance(style, WordPieceStyle) else WordPieceStyle()
    lower, chinese = config.get("do_lower_case"), config.get("tokenize_chinese_chars")
    return replace(
        usual,
        lowercase=usual.lowercase if lower is None else bool(lower),
        strip_accents=config.get("strip_accents", usual.strip_accents),
        chinese_characters=usual.chinese_characters if chinese is None else bool(chinese),
        special=_named(usual.special, config),
    )


def _byte_level_style(
    config: Mapping[str, Any], vocabulary: Mapping[str, int], style: Style | None, folder: Path
) -> ByteLevelStyle:
    """Makes the style of a folder with bytes: RoBERTa's if its tokens are there, else GPT-2's."""
    if str(config.get("tokenizer_class", "")).removesuffix("Fast") == "Qwen2Tokenizer":
        style = QWEN2_STYLE
    if not isinstance(style, ByteLevelStyle):
        is_roberta = "<s>" in vocabulary and "<mask>" in vocabulary
        style = ByteLevelStyle() if is_roberta else GPT2_STYLE
    special = _named(style.special, config)
    for name in (special.first, special.last) if style.frame else ():
        if name not in vocabulary:
            raise TokenizerError(
                f"{folder / 'vocab.json'} has no {name!r}; this style writes it around every text; "
                f"load it with a style that frames nothing (GPT-2, {GPT2_TOKENS.last!r})."
            )
    return replace(style, add_prefix_space=_prefix_space(config, style), special=special)
