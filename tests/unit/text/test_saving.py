"""Tokenizers that cannot be saved."""

import pytest

from clozeworks.errors import OutputError
from clozeworks.text.tokenizer.tokenizer import Tokenizer


def test_folder_that_cannot_be_written(bert, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError) as caught:
        bert.save(tmp_path / "file")
    assert str(caught.value) == (
        f"{tmp_path / 'file'} cannot be written (File exists); the tokenizer needs a folder with "
        "write permission; choose another."
    )
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_leaves_the_tokenizer_that_was_there(bert, gpt2_folder, tmp_path, largest_file):
    folder = tmp_path / "saved"
    Tokenizer.load(gpt2_folder).save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    wrong = pytest.raises(OutputError, match=r"tokenizer\.json could not be written: File too")
    with largest_file(300), wrong:
        bert.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
