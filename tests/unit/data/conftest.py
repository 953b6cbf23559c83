"""Files of texts, and the sentence that refuses one."""

import gzip
import json
from dataclasses import fields
from pathlib import Path

import pytest

from clozeworks.data.corpus import build as building
from clozeworks.data.corpus import split_writer
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.texts import read_texts
from clozeworks.errors import InputError
from clozeworks.text.training.train import train_from_iterator


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, so that files are named without one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def save():
    """Writes a file, packed if its name says so."""

    def write(name, content):
        data = content if isinstance(content, bytes) else content.encode()
        Path(name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
        return Path(name)

    return write


@pytest.fixture
def read(save):
    """Writes a file and reads its texts."""
    shared = {field.name for field in fields(FileFormat)}

    def read_saved(name, content, **options):
        file_format = FileFormat(**{key: options[key] for key in options if key in shared})
        rest = {key: options[key] for key in options if key not in shared}
        return read_texts(save(name, content), file_format=file_format, **rest)

    return read_saved


@pytest.fixture
def complaint():
    """The sentence with which a call refuses its input."""

    def message(call, *arguments, **options):
        with pytest.raises(InputError) as caught:
            call(*arguments, **options)
        return str(caught.value)

    return message


@pytest.fixture(scope="module")
def tokenizer(made_up):
    """A tokenizer of made-up documents."""
    texts = [made_up(number) for number in range(200)]
    return train_from_iterator(texts, kind="wordpiece", size=300)


@pytest.fixture
def texts(made_up, tmp_path):
    """A folder with two files of made-up documents, some of them in both."""
    folder = tmp_path / "texts"
    folder.mkdir()
    documents = [made_up(number) for number in range(400)]
    (folder / "a.txt").write_text("\n\n".join(documents[:250]), encoding="utf-8")
    lines = [json.dumps({"text": text}) for text in documents[200:]]
    (folder / "b.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def small(monkeypatch):
    """Many pieces and many shards of a small input."""
    monkeypatch.setattr(building, "CHUNK_CHARACTERS", 2_000)
    monkeypatch.setattr(split_writer, "SHARD_TOKENS", 1_500)
