"""A build gives the same bytes however it is run, stopped and resumed."""

import json
import random
import shutil
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest

from clozeworks.data import build as building
from clozeworks.data import corpus_folder, routes
from clozeworks.data.build import BuildSettings, build_corpus
from clozeworks.data.corpus import Corpus
from clozeworks.data.verify import verify
from clozeworks.errors import InputError, OutputError, SettingError
from clozeworks.text.tokenizer import Tokenizer
from clozeworks.text.train import train_from_iterator

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "lay", "in", "its", "garden", "long"]


def made_up(number: int) -> str:
    """A document of a few sentences, different for each number."""
    chance = random.Random(number)
    sentences = [
        " ".join(chance.choices(WORDS, k=chance.randint(2, 12))).capitalize() + f" {number}."
        for _ in range(chance.randint(1, 8))
    ]
    return " ".join(sentences)


@pytest.fixture(scope="module")
def tokenizer():
    texts = [made_up(number) for number in range(200)]
    return train_from_iterator(texts, kind="wordpiece", size=300)


@pytest.fixture
def texts(tmp_path):
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
    monkeypatch.setattr(building, "PIECE_CHARACTERS", 2_000)
    monkeypatch.setattr(routes, "SHARD_TOKENS", 3_000)


def hashes(folder):
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def documents_of(split, tokenizer):
    found = []
    for begin, end in pairwise(split.document_offsets):
        tokens, _ = split.read(split.sentence_offsets[begin], split.sentence_offsets[end])
        found.append(tokenizer.decode(tokens.tolist()))
    return found


def test_every_document_stands_in_it_once(texts, tokenizer, tmp_path, small):
    built = build_corpus([texts], tmp_path / "out", tokenizer, workers=1)
    manifest = built.corpus.manifest
    assert manifest["counts"] == {
        "documents_read": 450,
        "duplicates_dropped": 50,
        "files_read": 2,
    }
    train, held_out = (built.corpus.split(name) for name in ("train", "validation"))
    assert train.documents + held_out.documents == 400
    assert len(train.shards) > 2
    plain = {" ".join(made_up(number).lower().split()) for number in range(400)}
    seen = [
        text.replace(" .", ".")
        for split in (train, held_out)
        for text in documents_of(split, tokenizer)
    ]
    assert sorted(seen) == sorted(plain)
    assert verify(built.corpus) == []


def test_the_bytes_do_not_depend_on_the_workers(texts, tokenizer, tmp_path, small, monkeypatch):
    # Below a certain size no processes are started; here they are.
    results = []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        build_corpus([texts], out, tokenizer, BuildSettings(validation=0.2), workers=workers)
        results.append(hashes(out))
    assert results[0] == results[1] == results[2]
    assert "manifest.json" in results[0]


def test_sentences_documents_and_words_are_where_they_should_be(tokenizer, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("The cat sat. A dog lay\n\nIt sat\non and on.\n", encoding="utf-8")
    settings = BuildSettings(validation=0)
    split = build_corpus([source], tmp_path / "out", tokenizer, settings).corpus.split()
    assert split.documents == 2
    assert split.document_offsets.tolist() == [0, 2, 4]
    ends = split.sentence_offsets
    texts = [tokenizer.decode(split.read(a, b)[0].tolist()) for a, b in pairwise(ends)]
    assert [text.replace(" ", "") for text in texts] == [
        "thecatsat.",
        "adoglay",
        "itsat",
        "onandon.",
    ]
    tokens, starts = split.read(0, split.tokens)
    pieces = [tokenizer.token_of(int(token)) for token in tokens]
    assert starts.tolist() == [not piece.startswith("##") for piece in pieces]


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", range(8))
def test_a_build_stopped_at_any_write_goes_on_to_the_same_bytes(
    texts, tokenizer, tmp_path, small, monkeypatch, moment
):
    settings = BuildSettings(validation=0.2)
    build_corpus([texts], tmp_path / "whole", tokenizer, settings, workers=1)
    real, left = routes.write_record, [moment]

    def write_or_die(path, value):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        real(path, value)

    for module in (routes, building, corpus_folder):
        monkeypatch.setattr(module, "write_record", write_or_die)
    out = tmp_path / "out"
    stopped = False
    try:
        build_corpus([texts], out, tokenizer, settings, workers=1)
    except Killed:
        stopped = True
        with pytest.raises(InputError, match=r"is not finished|is not a corpus"):
            Corpus.open(out)
    assert stopped
    for module in (routes, building, corpus_folder):
        monkeypatch.setattr(module, "write_record", real)
    again = build_corpus([texts], out, tokenizer, settings, workers=1)
    assert hashes(out) == hashes(tmp_path / "whole")
    assert (again.resumed > 0) == (moment > 1)


def test_a_half_written_shard_is_made_again(texts, tokenizer, tmp_path, small):
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


@pytest.fixture
def stopped(texts, tokenizer, tmp_path, small, monkeypatch):
    """The folder of a build that was killed when it had three shards."""
    out = tmp_path / "out"
    real = routes.write_record

    def die_late(path, value):
        if path.name == "train-00003.json":
            raise Killed
        real(path, value)

    monkeypatch.setattr(routes, "write_record", die_late)
    with pytest.raises(Killed):
        build_corpus([texts], out, tokenizer, workers=1)
    monkeypatch.setattr(routes, "write_record", real)
    return out


def test_changed_input_is_noticed(texts, tokenizer, stopped):
    source = texts / "a.txt"
    source.write_text(source.read_text().replace("cat", "dog", 1))  # of the same size
    with pytest.raises(InputError, match="not what it was when the build of"):
        build_corpus([texts], stopped, tokenizer, workers=1)
    with pytest.raises(OutputError, match=r"validation was 0\.01 and is 0\.5"):
        build_corpus([texts], stopped, tokenizer, BuildSettings(validation=0.5), workers=1)
    build_corpus([texts], stopped, tokenizer, workers=1, overwrite=True)
    assert verify(Corpus.open(stopped)) == []


def test_input_may_change_behind_what_is_finished(texts, tokenizer, stopped, tmp_path):
    """As it does when somebody mends the file that stopped a build, or adds one."""
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


def test_shards_without_a_recipe_do_not_count(texts, tokenizer, stopped, tmp_path):
    """As a build leaves them that is killed while it clears the folder."""
    (stopped / "building" / "recipe.json").unlink()
    other = train_from_iterator([made_up(7)] * 3, kind="wordpiece", size=100)
    assert build_corpus([texts], stopped, other, workers=1).resumed == 0
    build_corpus([texts], tmp_path / "whole", other, workers=1)
    assert hashes(stopped) == hashes(tmp_path / "whole")


def test_the_corpus_folder_is_no_input(texts, tokenizer, stopped):
    inside = texts / "corpus"
    shutil.copytree(stopped, inside)  # it holds a vocab.txt
    built = build_corpus([texts], inside, tokenizer, workers=1)
    assert built.corpus.manifest["counts"]["files_read"] == 2
    assert built.resumed > 2 and not built.ignored
    with pytest.raises(InputError, match=r"lies in .*, the corpus folder; name other files"):
        build_corpus([inside], inside, tokenizer, workers=1)


def test_a_finished_corpus_is_left_alone_or_replaced(texts, tokenizer, tmp_path):
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
    from clozeworks.data.locking import locked

    out = tmp_path / "out"
    with locked(out), pytest.raises(OutputError, match="is being written by another program"):
        build_corpus([texts], out, tokenizer)


def test_validation_documents_are_chosen_by_what_they_say(texts, tokenizer, tmp_path):
    settings = BuildSettings(validation=0.3)
    one = build_corpus([texts], tmp_path / "one", tokenizer, settings, workers=1)
    (texts / "a.txt").rename(texts / "z.txt")
    two = build_corpus([texts], tmp_path / "two", tokenizer, settings, workers=1)
    found = [set(documents_of(c.corpus.split("validation"), tokenizer)) for c in (one, two)]
    assert found[0] == found[1]
    assert 80 < len(found[0]) < 160
    other = set(documents_of(one.corpus.split("train"), tokenizer))
    assert not found[0] & other


def test_without_validation_there_is_no_such_part(texts, tokenizer, tmp_path):
    corpus = build_corpus([texts], tmp_path / "out", tokenizer, BuildSettings(validation=0)).corpus
    assert corpus.splits == ("train",)
    with pytest.raises(InputError, match="has no part 'validation'; it has: train"):
        corpus.split("validation")
    with pytest.raises(SettingError, match=r"validation is 1\.5"):
        build_corpus([texts], tmp_path / "no", tokenizer, BuildSettings(validation=1.5))


def test_duplicates_are_kept_if_asked(texts, tokenizer, tmp_path):
    settings = BuildSettings(keep_duplicates=True, validation=0)
    corpus = build_corpus([texts], tmp_path / "out", tokenizer, settings).corpus
    assert corpus.split().documents == 450


def test_special_tokens_written_in_a_text_stay_text(tokenizer, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("the [MASK] sat [SEP] on [CLS] it", encoding="utf-8")
    settings = BuildSettings(validation=0)
    split = build_corpus([source], tmp_path / "out", tokenizer, settings).corpus.split()
    special = {tokenizer.mask_id, tokenizer.first_id, tokenizer.last_id}
    assert not special & set(split.read(0, split.tokens)[0].tolist())


def test_a_large_vocabulary_takes_wider_integers(tmp_path):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary += [f"w{number}" for number in range(70_000)]
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    source = tmp_path / "a.txt"
    source.write_text("w69999 w1 w65531", encoding="utf-8")
    settings = BuildSettings(validation=0)
    corpus = build_corpus([source], tmp_path / "out", Tokenizer.load(folder), settings).corpus
    tokens, _ = corpus.split().read(0, 3)
    assert tokens.dtype == np.uint32
    assert tokens.tolist() == [70_004, 6, 65_536]
    # One entry less than the limit still fits the narrow ones.
    (folder / "vocab.txt").write_text("\n".join(vocabulary[:65_536]))
    source.write_text("w65530")
    narrow = build_corpus([source], tmp_path / "two", Tokenizer.load(folder), settings).corpus
    tokens, _ = narrow.split().read(0, 1)
    assert (tokens.dtype, tokens.tolist()) == (np.uint16, [65_535])


def test_a_corpus_knows_its_tokenizer(texts, tokenizer, tmp_path):
    corpus = build_corpus([texts], tmp_path / "out", tokenizer).corpus
    corpus.check_tokenizer(tokenizer, "the model")
    other = train_from_iterator([made_up(7)] * 3, kind="wordpiece", size=100)
    with pytest.raises(InputError, match="was built with another tokenizer"):
        corpus.check_tokenizer(other, "the model")


def test_a_bad_file_stops_the_build_or_is_skipped(texts, tokenizer, tmp_path):
    (texts / "aa.txt").write_bytes(b"Good.\n\nBad \xff here.")
    with pytest.raises(InputError, match=r"aa\.txt, line 3"):
        build_corpus([texts], tmp_path / "out", tokenizer)
    with pytest.raises(InputError, match="is not finished"):
        Corpus.open(tmp_path / "out")
    settings = BuildSettings(skip_bad_files=True)
    built = build_corpus([texts], tmp_path / "two", tokenizer, settings)
    assert len(built.skipped) == 1
    assert "aa.txt, line 3" in built.skipped[0]


def test_nothing_to_learn_from_is_said(tokenizer, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text(" \n\n \n")
    with pytest.raises(InputError, match="no text that gives a token"):
        build_corpus([source], tmp_path / "out", tokenizer)


@pytest.mark.parametrize("name", ["train-00000.safetensors", "validation-00000.safetensors"])
def test_a_flipped_bit_anywhere_is_found(texts, tokenizer, tmp_path, name):
    corpus = build_corpus(
        [texts], tmp_path / "out", tokenizer, BuildSettings(validation=0.1)
    ).corpus
    path = corpus.folder / name
    data = path.read_bytes()
    chance = random.Random(0)
    for place in [0, 7, 8, len(data) - 1, *chance.choices(range(len(data)), k=30)]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        assert any(name in sentence for sentence in verify(corpus)), place
    path.write_bytes(data[:-1])
    assert verify(corpus)
    path.unlink()
    assert "cannot be read" in verify(corpus)[0]
