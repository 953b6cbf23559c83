"""Vocabularies in files of their own (`vocab.txt`, `vocab.json`, `merges.txt`).

They are read line by line, and compared with `tokenizer.json` where they stand beside it.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from clozeworks.config import parse_json, read_text
from clozeworks.errors import TokenizerError, shown
from clozeworks.text.tokenizer.definition import check_ids
from clozeworks.wording import shortened

Repeats = Literal["error", "last"]


def read_word_list(path: Path, unknown: str, repeats: Repeats) -> dict[str, int]:
    """Reads `vocab.txt`: one token a line, the line is its id; `unknown` must be among them."""
    vocabulary: dict[str, int] = {}
    for index, token in enumerate(_read_lines(path)):
        if token in vocabulary and repeats == "error":
            raise TokenizerError(
                f"{path}, line {index + 1:,}: {shown(token)} stands already on line "
                f"{vocabulary[token] + 1:,}; a token has one id; repair the file, or load it with "
                "repeats='last', which counts the last line as transformers does."
            )
        vocabulary[token] = index
    if unknown not in vocabulary:
        raise TokenizerError(
            f"{path} has no {shown(unknown)} among its {len(vocabulary):,} tokens; words outside "
            "the vocabulary need it; check that the file is a WordPiece vocabulary."
        )
    return vocabulary


def read_byte_pairs(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Reads `vocab.json` and `merges.txt`, which must fit together."""
    vocabulary = _read_vocabulary(folder / "vocab.json")
    path = folder / "merges.txt"
    merges = []
    for number, line in _read_merges(path):
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise TokenizerError(
                f"{path}, line {number:,}: {shown(line)} is not a merge; a merge is two pieces "
                "with a space between; fetch the file again."
            )
        for piece in (*pair, "".join(pair)):
            if piece not in vocabulary:
                raise TokenizerError(
                    f"{path}, line {number:,}: {shown(piece)} is not in vocab.json; the two files "
                    "must belong together; fetch both again."
                )
        merges.append((pair[0], pair[1]))
    return vocabulary, merges


def check_beside(folder: Path, kind: str, model: Mapping[str, Any]) -> None:
    """Insists that the vocabulary files beside `tokenizer.json` say the same as it does.

    Args:
        folder: The folder.
        kind: The type of the model: "WordPiece", "BPE".
        model: What `tokenizer.json` says of the model.

    Raises:
        TokenizerError: If they do not.
    """
    vocabulary = model["vocab"]
    if kind == "WordPiece" and (folder / "vocab.txt").is_file():
        lines = _read_lines(folder / "vocab.txt")
        # An empty line at the end is a token for some programs and none for others.
        stated = {token: index for index, token in enumerate(lines) if token}
        _check_same(folder / "vocab.txt", stated, vocabulary)
    if kind == "BPE" and (folder / "vocab.json").is_file():
        _check_same(folder / "vocab.json", _read_vocabulary(folder / "vocab.json"), vocabulary)
    if kind == "BPE" and (folder / "merges.txt").is_file():
        path = folder / "merges.txt"
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
        stated_merges = list(_read_merges(path))
        for index, (there, here) in enumerate(zip_longest(stated_merges, merges)):
            number, line = there or (len(stated_merges) + 1, None)
            if line != here:
                raise TokenizerError(
                    f"{path}, line {number:,}: merge {index + 1:,} is {_merge(line)}, and "
                    f"{_merge(here)} in tokenizer.json; the two files must belong together; fetch "
                    "both again."
                )


def repeated_lines(path: Path) -> frozenset[int]:
    """The lines of `vocab.txt`, from 0, whose token stands on a later line again."""
    if not path.is_file():
        return frozenset()
    lines = _read_lines(path)
    last = {token: index for index, token in enumerate(lines)}
    return frozenset(index for index, token in enumerate(lines) if last[token] != index)


def _merge(line: str | None) -> str:
    return "missing" if line is None else shortened(repr(line))


def _check_same(path: Path, stated: Mapping[str, int], vocabulary: Mapping[str, int]) -> None:
    """Insists that a vocabulary file has the tokens of `tokenizer.json`, with the same ids."""
    if stated == vocabulary:
        return
    for token in sorted((stated.keys() | vocabulary.keys()) - {""}):
        there, here = stated.get(token), vocabulary.get(token)
        if there != here:
            ids = " and ".join(
                f"{'no id' if index is None else f'the id {index:,}'} in {name}"
                for index, name in ((there, path.name), (here, "tokenizer.json"))
            )
            raise TokenizerError(
                f"{path}: {shortened(repr(token))} has {ids}; the two files must belong together; "
                "fetch both again."
            )


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Reads `vocab.json`: the id of each token."""
    vocabulary = parse_json(read_text(path, TokenizerError), path, TokenizerError, repeats=False)
    if not isinstance(vocabulary, dict):
        raise TokenizerError(
            f"{path} is JSON, but not an object; it must have the form {{…}}; restore the file."
        )
    check_ids(path, vocabulary.items())
    return vocabulary


def _read_merges(path: Path) -> Iterator[tuple[int, str]]:
    """Reads the merges of `merges.txt`, each with the number of its line."""
    for number, line in enumerate(_read_lines(path), 1):
        if line and not (number == 1 and line.startswith("#version")):
            yield number, line


def _read_lines(path: Path) -> list[str]:
    """Reads the lines of a file; only a line feed ends a line."""
    # Trap: str.splitlines would also cut at U+2028 or U+0085, which may be tokens.
    lines = [line.removesuffix("\r") for line in read_text(path, TokenizerError).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines
