"""Tiny vocabularies made by code, and the folder with the real ones."""

import json
import os
from pathlib import Path

import pytest

from clozeworks.text.tokenizer.styles import ByteLevelStyle
from clozeworks.text.tokenizer.tokenizer import Tokenizer

BERT = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "cafe"),
    *("##s", "##ing", "un", "##happy", "h", "##a", ".", ",", "!", "我", "爱", "北", "京", "😀"),
]
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("c", "a"), ("ca", "t"), ("Ġ", "cat")]


@pytest.fixture(scope="session")
def data() -> Path:
    """The real vocabularies and texts, which lie beside the repository."""
    beside = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"
    folder = Path(os.environ.get("CLOZEWORKS_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"the data folder {folder} is not there")
    return folder


@pytest.fixture
def bert_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(BERT) + "\n", encoding="utf-8")
    return folder


def byte_pairs(leading: list[str], trailing: list[str]) -> tuple[dict[str, int], list]:
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = [*leading, *sorted(ByteLevel.alphabet()), *map("".join, MERGES), *trailing]
    return {token: index for index, token in enumerate(tokens)}, MERGES


@pytest.fixture
def roberta_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "roberta"
    folder.mkdir()
    vocabulary, merges = byte_pairs(["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def gpt2_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "gpt2"
    folder.mkdir()
    vocabulary, merges = byte_pairs([], ["<|endoftext|>"])
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(" ".join(p) for p in merges), encoding="utf-8")
    return folder


@pytest.fixture
def bert(bert_folder: Path) -> Tokenizer:
    return Tokenizer.load(bert_folder)


@pytest.fixture
def roberta(roberta_folder: Path) -> Tokenizer:
    return Tokenizer.load(roberta_folder)


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    vocabulary, merges = byte_pairs(["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])
    return Tokenizer(ByteLevelStyle().build(vocabulary, merges))
