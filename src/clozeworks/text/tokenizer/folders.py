"""A tokenizer folder, whichever of the usual files it has."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer import files
from clozeworks.text.tokenizer.bytes import PUBLISHED_CLASS, byte_tokens
from clozeworks.text.tokenizer.sentencepiece import FILE, t5_tokens
from clozeworks.text.tokenizer.special import SpecialTokens
from clozeworks.text.tokenizer.styles import Style


def read_folder(
    folder: Path, style: Style | None, repeats: files.Repeats
) -> tuple[Backend, SpecialTokens, dict[str, Any]]:
    """What a folder says: the tokenizer, its special tokens, `tokenizer_config.json`.

    Args:
        folder: Where the files are.
        style: How the family writes text, for folders that do not say it.
        repeats: What a token that stands twice in `vocab.txt` does.

    Raises:
        TokenizerError: If files are missing, damaged or contradict each other.
    """
    names = files.read_object(folder / "special_tokens_map.json")
    config = files.read_config(folder / "tokenizer_config.json")
    stated = {**names, **config}
    if (folder / "tokenizer.json").is_file():
        backend = _read_whole(folder / "tokenizer.json")
        files.follow_config(backend, config, style)
    elif (folder / "vocab.txt").is_file():
        style = files.wordpiece_style(stated, style)
        unknown = style.special.unknown or "[UNK]"
        backend = style.build(files.read_word_list(folder / "vocab.txt", unknown, repeats))
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        vocabulary, merges = files.read_byte_pairs(folder)
        style = files.byte_pair_style(stated, vocabulary, style, folder)
        backend = style.build(vocabulary, merges)
    elif config.get("tokenizer_class") == PUBLISHED_CLASS:
        backend = byte_tokens(config, str(folder / "tokenizer_config.json"))
    elif files.has_t5_pieces(folder, config, style):
        backend = t5_tokens(folder / FILE, config)
    else:
        raise _without_files(folder)
    files.add_stated(backend, config, folder)
    vocabulary = backend.get_vocab(with_added_tokens=True)
    special = files.special_tokens(stated, vocabulary, style, special_names(backend))
    return backend, special, config


def holds_tokenizer(folder: Path, style: Style | None = None) -> bool:
    """Says whether a folder holds a tokenizer, or says that it needs none.

    Args:
        folder: The folder.
        style: How the family writes text.
    """
    if any((folder / name).exists() for name in files.FILES):
        return True
    config = files.read_object(folder / "tokenizer_config.json")
    if config.get("tokenizer_class") == PUBLISHED_CLASS:
        return True
    return files.has_t5_pieces(folder, config, style)


def special_names(backend: Backend) -> list[str]:
    """The tokens that a backend knows as special, in the order of their ids."""
    added = sorted(backend.get_added_tokens_decoder().items())
    return [token.content for _, token in added if token.special]


def _read_whole(path: Path) -> Backend:
    text = files.read_text(path)
    try:
        return Backend.from_str(text)
    except Exception as error:  # The library raises bare Exception.
        files.read_object(path)
        raise TokenizerError(
            f"{path} is not a tokenizer ({error}); the tokenizers library must be able to read it; "
            "fetch the file again."
        ) from None


def _without_files(folder: Path) -> TokenizerError:
    """Says that a folder has no tokenizer, or one that must be converted.

    Args:
        folder: The folder.
    """
    name = files.sentence_piece(folder)
    if name is not None:
        return TokenizerError(f"{folder / name} {files.CONVERT}")
    return TokenizerError(
        f"{folder} has no tokenizer; it must hold tokenizer.json, or vocab.txt, or "
        "vocab.json with merges.txt; copy the files there or name another folder."
    )
