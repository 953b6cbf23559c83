"""Reads a tokenizer folder, whichever of the usual files it has, and says which line is wrong."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tokenizers import AddedToken, models, processors
from tokenizers import Tokenizer as Backend

from clozeworks import config as settings
from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.bytes import PUBLISHED_CLASS, byte_tokens
from clozeworks.text.tokenizer.sentencepiece import FILE, PUBLISHED_CLASSES, t5_tokens
from clozeworks.text.tokenizer.special import GPT2_TOKENS, SpecialTokens
from clozeworks.text.tokenizer.styles import (
    GPT2_STYLE,
    AnsweringUnigramStyle,
    ByteLevelStyle,
    CharacterPairStyle,
    Style,
    WordPieceStyle,
)

Repeats = Literal["error", "last"]

# Files of which a folder with a tokenizer has one at least, unless its tokens are bytes.
FILES = ("tokenizer.json", "vocab.txt", "vocab.json")
# Files of SentencePiece, which are read for T5 alone.
SENTENCE_PIECE = (FILE, "spm.model", "sentencepiece.bpe.model", "tokenizer.model")
CONVERT = (
    "is a SentencePiece model; tokenizer.json must stand beside it; have transformers write it: "
    "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
)

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
STYLE_KEYS: dict[type[Style], frozenset[str]] = {
    WordPieceStyle: frozenset({"do_lower_case", "strip_accents", "tokenize_chinese_chars"}),
    ByteLevelStyle: frozenset({"add_prefix_space"}),
}


def read_folder(
    folder: Path, style: Style | None, repeats: Repeats
) -> tuple[Backend, SpecialTokens, dict[str, Any]]:
    """What a folder says: the tokenizer, its special tokens, `tokenizer_config.json`.

    `Tokenizer.load` explains the arguments.
    """
    config = _read_config(folder / "tokenizer_config.json")
    stated = {**read_object(folder / "special_tokens_map.json"), **config}
    if (folder / "tokenizer.json").is_file():
        backend = _read_whole(folder / "tokenizer.json")
        _follow_config(backend, config, style)
    elif (folder / "vocab.txt").is_file():
        style = _wordpiece_style(stated, style)
        unknown = style.special.unknown or "[UNK]"
        backend = style.build(_read_word_list(folder / "vocab.txt", unknown, repeats))
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        vocabulary, merges = _read_byte_pairs(folder)
        style = _byte_pair_style(stated, vocabulary, style, folder)
        backend = style.build(vocabulary, merges)
    elif config.get("tokenizer_class") == PUBLISHED_CLASS:
        backend = byte_tokens(config, str(folder / "tokenizer_config.json"))
    elif _has_t5_pieces(folder, config, style):
        backend = t5_tokens(folder / FILE, config)
    else:
        raise _without_files(folder)
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
    return is_byt5 or _has_t5_pieces(folder, config, style)


def special_names(backend: Backend) -> list[str]:
    """The tokens that a backend knows as special, in the order of their ids."""
    added = sorted(backend.get_added_tokens_decoder().items())
    return [token.content for _, token in added if token.special]


def _read_whole(path: Path) -> Backend:
    text = read_text(path)
    try:
        return Backend.from_str(text)
    except Exception as error:  # The library raises bare Exception.
        read_object(path)
        raise TokenizerError(
            f"{path} is not a tokenizer ({error}); the tokenizers library must be able to read it; "
            "fetch the file again."
        ) from None


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
    for key in sorted(frozenset().union(*STYLE_KEYS.values()) & config.keys()):
        if not isinstance(config[key], bool | None):
            raise TokenizerError(
                f"{path}: {key} is {config[key]!r}; it must be true or false; correct it."
            )
    return config


def token_name(value: Any) -> str | None:
    """Reads a token's name, written as a string or as `{"content": …}`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _read_lines(path: Path) -> list[str]:
    """Reads the lines of a file; only a line feed ends a line."""
    # Trap: str.splitlines would also cut at U+2028 or U+0085, which may be tokens.
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _read_word_list(path: Path, unknown: str, repeats: Repeats) -> dict[str, int]:
    """Reads `vocab.txt`: one token a line, the line is its id; `unknown` must be among them."""
    vocabulary: dict[str, int] = {}
    for index, token in enumerate(_read_lines(path)):
        if token in vocabulary and repeats == "error":
            raise TokenizerError(
                f"{path}, line {index + 1:,}: {token!r} stands already on line "
                f"{vocabulary[token] + 1:,}; a token has one id; repair the file, or load it with "
                "repeats='last', which counts the last line as transformers does."
            )
        vocabulary[token] = index
    if unknown not in vocabulary:
        raise TokenizerError(
            f"{path} has no {unknown!r} among its {len(vocabulary):,} tokens; words outside the "
            "vocabulary need it; check that the file is a WordPiece vocabulary."
        )
    return vocabulary


def _read_byte_pairs(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Reads `vocab.json` and `merges.txt`, which must fit together."""
    path = folder / "vocab.json"
    vocabulary = read_object(path)
    owner: dict[int, str] = {}
    for token, index in vocabulary.items():
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise TokenizerError(
                f"{path}: the id of {token!r} is {index!r}; ids are whole numbers from 0; "
                "fetch the file again."
            )
        if index in owner:
            raise TokenizerError(
                f"{path}: id {index:,} belongs to {owner[index]!r} and to {token!r}; "
                "an id has one token; fetch the file again."
            )
        owner[index] = token
    path = folder / "merges.txt"
    merges = []
    for number, line in enumerate(_read_lines(path), 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise TokenizerError(
                f"{path}, line {number:,}: {line!r} is not a merge; a merge is two pieces with a "
                "space between; fetch the file again."
            )
        for piece in (*pair, "".join(pair)):
            if piece not in vocabulary:
                raise TokenizerError(
                    f"{path}, line {number:,}: {piece!r} is not in vocab.json; the two files "
                    "must belong together; fetch both again."
                )
        merges.append((pair[0], pair[1]))
    return vocabulary, merges


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


def _has_t5_pieces(folder: Path, config: Mapping[str, Any], style: Style | None) -> bool:
    """Says whether a folder has a SentencePiece model that can be read: T5's, or mT5's."""
    stated = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    is_t5 = stated in PUBLISHED_CLASSES if stated else isinstance(style, AnsweringUnigramStyle)
    return is_t5 and (folder / FILE).is_file()


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
    flags = ("lstrip", "rstrip", "single_word", "normalized")
    stated: dict[str, tuple[int, AddedToken, str]] = {}
    for name, index in read_object(folder / "added_tokens.json").items():
        stated[name] = (int(index), AddedToken(name, normalized=False), "added_tokens.json")
    for key, entry in (config.get("added_tokens_decoder") or {}).items():
        content = token_name(entry)
        if content is not None:
            set_flags = {flag: bool(entry[flag]) for flag in flags if flag in entry}
            token = AddedToken(content, special=bool(entry.get("special")), **set_flags)
            stated[content] = (int(key), token, "tokenizer_config.json")
    for name, (index, token, source) in sorted(stated.items(), key=lambda item: item[1][0]):
        if backend.token_to_id(name) is not None:
            continue
        if token.special:
            backend.add_special_tokens([token])
        else:
            backend.add_tokens([token])
        actual = backend.token_to_id(name)
        if actual != index:
            raise TokenizerError(
                f"{folder / source}: the id of {name!r} is {index:,}; it would follow the "
                f"vocabulary as {actual:,}; check that the file belongs to this vocabulary."
            )


def _named(special: SpecialTokens, config: Mapping[str, Any]) -> SpecialTokens:
    """Lets the names a config states replace those of a style."""
    stated: dict[str, str | None] = {}
    for role, keys in TOKEN_KEYS.items():
        names = [token_name(config.get(key)) for key in keys]
        stated[role] = next((name for name in names if name), getattr(special, role))
    return SpecialTokens(**stated, extra=special.extra)


def _follow_config(backend: Backend, config: Mapping[str, Any], style: Style | None) -> None:
    """Lets `tokenizer_config.json` decide where `tokenizer.json` says something else."""
    # Trap: a class that is named makes the whole step anew, and a key that is not there has the
    # class's default, whatever tokenizer.json says. transformers does so even where no file names
    # a class or a key; there tokenizer.json, the only one to speak, counts here.
    name = config.get("tokenizer_class")
    if name is not None:
        kind = CLASSES.get(str(name).removesuffix("Fast"))
    else:
        stated = [known for known, keys in STYLE_KEYS.items() if keys & config.keys()]
        kind = next((known for known in stated if isinstance(style, known)), None)
    if kind is WordPieceStyle and isinstance(backend.model, models.WordPiece):
        backend.normalizer = _wordpiece_style(config, style).normalizer()
    if kind is ByteLevelStyle and isinstance(backend.model, models.BPE):
        prefix = _prefix_space(config, style)
        backend.pre_tokenizer = ByteLevelStyle(add_prefix_space=prefix).pre_tokenizer()
        if isinstance(backend.post_processor, processors.RobertaProcessing):
            # It trims the offsets, and has to know of the space that the text does not have.
            frame = json.loads(backend.post_processor.__getstate__())
            backend.post_processor = processors.RobertaProcessing(
                tuple(frame["sep"]), tuple(frame["cls"]), frame["trim_offsets"], prefix
            )


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
