"""Files of texts, and the sentence that refuses one."""

import gzip
from pathlib import Path

import pytest

from clozeworks.data.texts import read_texts
from clozeworks.errors import InputError


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
    return lambda name, content, **options: read_texts(save(name, content), **options)


@pytest.fixture
def complaint():
    """The sentence with which a call refuses its input."""

    def message(call, *arguments, **options):
        with pytest.raises(InputError) as caught:
            call(*arguments, **options)
        return str(caught.value)

    return message
