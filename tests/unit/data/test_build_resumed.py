"""A build gives the same bytes however it is stopped and resumed."""

import json
import shutil

import pytest

from clozeworks.data.corpus import build as building
from clozeworks.data.corpus import folder as corpus_folder
from clozeworks.data.corpus import split_writer
from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.corpus.verify import verify
from clozeworks.errors import InputError, OutputError
from clozeworks.storage.locks import locked
from clozeworks.text.training.train import train_from_iterator


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def stopped(texts, tokenizer, tmp_path, small, monkeypatch):
    """The folder of a build that was killed when it had three shards."""
    out = tmp_path / "out"
    real = split_writer.write_json

    def die_late(path, value):
        if path.name == "train-00003.json":
            raise Killed
        real(path, value)

    monkeypatch.setattr(split_writer, "write_json", die_late)
    with pytest.raises(Killed):
        build_corpus([texts], out, tokenizer, workers=1)
    monkeypatch.setattr(split_writer, "write_json", real)
    return out


def test_input_may_change_behind_what_is_finished(texts, tokenizer, stopped, tmp_path, hashes):
    """As it does when somebody repairs the file that stopped a build, or adds one."""
    with (texts / "a.txt").open("a", encoding="utf-8") as file:
        file.write("\n\nOne more.")
    (texts / "z.txt").write_bytes(b"Good.\n\nBad \xff here.")
    with pytest.raises(InputError, match=r"z\.txt, line 3"):
        build_corpus([texts], stopped, tokenizer, workers=1)
    settings = BuildSettings(skip_bad_files=True)
    again = build_corpus([texts], stopped, tokenizer, settings, workers=1)
    assert again.resumed > 2 and len(again.skipped) == 1
    build_corpus([texts], tmp_path / "whole", tokenizer, settings, workers=1)
    assert hashes(stopped) == hashes(tmp_path / "whole")


def test_a_build_without_a_shard_begins_anew(texts, tokenizer, tmp_path):
    out = tmp_path / "out"
    (texts / "a.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not valid UTF-8"):
        build_corpus([texts], out, tokenizer)
    settings = BuildSettings(skip_bad_files=True, validation=0)
    build_corpus([texts], out, tokenizer, settings)
    assert verify(Corpus.open(out)) == []


def test_what_a_killed_build_was_writing_is_removed(texts, tokenizer, stopped):
    for folder in (stopped, stopped / "building", stopped / "tokenizer"):
        (folder / ".some.json.123.abc.temporary").write_bytes(b"half")
    build_corpus([texts], stopped, tokenizer, workers=1)
    assert not list(stopped.rglob("*.temporary"))


def test_shards_without_a_recipe_do_not_count(texts, tokenizer, stopped, tmp_path, hashes, made_up):
    """As a build leaves them that is killed while it clears the folder."""
    (stopped / "building" / "recipe.json").unlink()
    other = train_from_iterator([made_up(7)] * 3, kind="wordpiece", size=100)
    assert build_corpus([texts], stopped, other, workers=1).resumed == 0
    build_corpus([texts], tmp_path / "whole", other, workers=1)
    assert hashes(stopped) == hashes(tmp_path / "whole")


def test_the_corpus_folder_is_no_input(texts, tokenizer, stopped):
    inside = texts / "corpus"
    shutil.copytree(stopped, inside)
    built = build_corpus([texts], inside, tokenizer, workers=1)
    assert built.corpus.manifest["counts"]["files_read"] == 2
    assert built.resumed > 2 and not built.ignored
    with pytest.raises(InputError, match=r"is in .*, the corpus folder; name other files"):
        build_corpus([inside / "tokenizer" / "vocab.txt"], inside, tokenizer, workers=1)


@pytest.mark.parametrize("moment", range(8))
def test_a_build_stopped_at_any_write_goes_on_to_the_same_bytes(
    texts, tokenizer, tmp_path, small, monkeypatch, moment, hashes
):
    settings = BuildSettings(validation=0.2)
    build_corpus([texts], tmp_path / "whole", tokenizer, settings, workers=1)
    real, left = split_writer.write_json, [moment]

    def write_or_die(path, value):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        real(path, value)

    for module in (split_writer, building, corpus_folder):
        monkeypatch.setattr(module, "write_json", write_or_die)
    out = tmp_path / "out"
    stopped = False
    try:
        build_corpus([texts], out, tokenizer, settings, workers=1)
    except Killed:
        stopped = True
        with pytest.raises(InputError, match=r"is not finished|is not a corpus"):
            Corpus.open(out)
    assert stopped
    for module in (split_writer, building, corpus_folder):
        monkeypatch.setattr(module, "write_json", real)
    again = build_corpus([texts], out, tokenizer, settings, workers=1)
    assert hashes(out) == hashes(tmp_path / "whole")
    assert (again.resumed > 0) == (moment > 1)


def test_a_half_written_shard_is_made_again(texts, tokenizer, tmp_path, small, hashes):
    settings = BuildSettings(validation=0)
    whole = tmp_path / "whole"
    build_corpus([texts], whole, tokenizer, settings, workers=1)
    out = tmp_path / "out"
    _pretend_stopped(whole, out)
    (out / "train-00001.safetensors").write_bytes(b"half")
    build_corpus([texts], out, tokenizer, settings, workers=1)
    assert hashes(out) == hashes(whole)


def _pretend_stopped(whole, out):
    """A folder as a build leaves it that was stopped right before its end."""
    shutil.copytree(whole, out)
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").unlink()
    (out / "building").mkdir()
    (out / "building" / "recipe.json").write_text(json.dumps(manifest["made"]))


def test_changed_input_is_noticed(texts, tokenizer, stopped):
    source = texts / "a.txt"
    source.write_text(source.read_text().replace("cat", "dog", 1))  # of the same size
    with pytest.raises(InputError, match="not what it was when the build of"):
        build_corpus([texts], stopped, tokenizer, workers=1)
    with pytest.raises(OutputError, match=r"validation was 0\.01 and is 0\.5"):
        build_corpus([texts], stopped, tokenizer, BuildSettings(validation=0.5), workers=1)
    build_corpus([texts], stopped, tokenizer, workers=1, overwrite=True)
    assert verify(Corpus.open(stopped)) == []


def test_replacing_goes_on_too_unless_the_input_changed(
    texts, tokenizer, tmp_path, small, monkeypatch, hashes
):
    out = tmp_path / "out"
    build_corpus([texts], out, tokenizer, BuildSettings(validation=0.5), workers=1)
    real = split_writer.write_json

    def die_late(path, value):
        if path.name == "train-00003.json":
            raise Killed
        real(path, value)

    def stopped():
        monkeypatch.setattr(split_writer, "write_json", die_late)
        with pytest.raises(Killed):
            build_corpus([texts], out, tokenizer, workers=1, overwrite=True)
        monkeypatch.setattr(split_writer, "write_json", real)

    stopped()
    assert build_corpus([texts], out, tokenizer, workers=1, overwrite=True).resumed >= 3
    whole = hashes(out)
    stopped()
    source = texts / "a.txt"
    source.write_text(source.read_text().replace("cat", "dog", 1))  # of the same size
    assert build_corpus([texts], out, tokenizer, workers=1, overwrite=True).resumed == 0
    assert hashes(out) != whole
    assert verify(Corpus.open(out)) == []


def test_a_damaged_record_counts_as_none(texts, tokenizer, tmp_path, small, hashes):
    settings = BuildSettings(validation=0)
    build_corpus([texts], tmp_path / "whole", tokenizer, settings, workers=1)
    out = tmp_path / "out"
    _pretend_stopped(tmp_path / "whole", out)
    (out / "building" / "train-00000.json").write_text('{"entry": {}}')
    build_corpus([texts], out, tokenizer, settings, workers=1)
    assert hashes(out) == hashes(tmp_path / "whole")


def test_a_finished_corpus_is_left_alone_or_replaced(texts, tokenizer, tmp_path, hashes):
    out = tmp_path / "out"
    build_corpus([texts], out, tokenizer, workers=1)
    before = hashes(out)
    build_corpus([texts], out, tokenizer, workers=1)
    assert hashes(out) == before
    with pytest.raises(OutputError, match=r"validation was 0\.01 and is 0\.5"):
        build_corpus([texts], out, tokenizer, BuildSettings(validation=0.5), workers=1)
    assert hashes(out) == before
    build_corpus([texts], out, tokenizer, BuildSettings(validation=0.5), overwrite=True, workers=1)
    assert hashes(out) != before


def test_a_folder_with_other_files_is_refused(texts, tokenizer, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds other files \(thesis.txt\)"):
        build_corpus([texts], out, tokenizer)
    with pytest.raises(OutputError, match="holds other files"):
        build_corpus([texts], out, tokenizer, overwrite=True)
    assert (out / "thesis.txt").read_text() == "mine"


def test_two_builds_cannot_share_a_folder(texts, tokenizer, tmp_path):

    out = tmp_path / "out"
    with locked(out), pytest.raises(OutputError, match="is being written by another program"):
        build_corpus([texts], out, tokenizer)
