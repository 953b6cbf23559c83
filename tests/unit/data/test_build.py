"""What a build makes of documents."""

import errno
import random
import signal
import subprocess
from itertools import pairwise

import numpy as np
import pytest

from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.corpus.verify import verify
from clozeworks.errors import InputError, SettingError
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator


def documents_of(split, tokenizer):
    found = []
    for begin, end in pairwise(split.document_offsets):
        tokens, _ = split.read(split.sentence_offsets[begin], split.sentence_offsets[end])
        found.append(tokenizer.decode(tokens.tolist()))
    return found


def test_every_document_stands_in_it_once(texts, tokenizer, tmp_path, small, made_up):
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


def test_the_bytes_do_not_depend_on_the_workers(
    texts, tokenizer, tmp_path, small, monkeypatch, hashes
):
    # Below a certain size no processes are started; here they are.
    results = []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        build_corpus([texts], out, tokenizer, BuildSettings(validation=0.2), workers=workers)
        results.append(hashes(out))
    assert results[0] == results[1] == results[2]
    assert "manifest.json" in results[0]


@pytest.mark.parametrize(
    ("error", "raised", "sentence"),
    [
        (
            BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
            InputError,
            r"^worker process 3 of 4 could not be started \(Resource temporarily unavailable\); "
            r"run the same command again with fewer --workers\.$",
        ),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_a_worker_that_cannot_be_started(
    texts, tokenizer, tmp_path, monkeypatch, error, raised, sentence
):
    started = []

    class Scarce(subprocess.Popen):
        def __init__(self, *arguments, **options):
            if len(started) == 2:
                raise error
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Scarce)
    with pytest.raises(raised, match=sentence):
        build_corpus([texts], tmp_path / "out", tokenizer, workers=4)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


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


def test_a_corpus_knows_its_tokenizer(texts, tokenizer, tmp_path, made_up):
    corpus = build_corpus([texts], tmp_path / "out", tokenizer).corpus
    corpus.check_tokenizer(tokenizer, "the model")
    other = train_from_iterator([made_up(7)] * 3, kind="wordpiece", size=100)
    with pytest.raises(InputError, match="was built with another tokenizer"):
        corpus.check_tokenizer(other, "the model")


def test_a_bad_file_stops_the_build_or_is_skipped(texts, tokenizer, tmp_path):
    (texts / "aa.txt").write_bytes(b"Good.\n\nBad \xff here.\n\nGood again.")
    with pytest.raises(InputError, match=r"aa\.txt, line 3"):
        build_corpus([texts], tmp_path / "out", tokenizer)
    with pytest.raises(InputError, match="is not finished"):
        Corpus.open(tmp_path / "out")
    settings = BuildSettings(skip_bad_files=True)
    built = build_corpus([texts], tmp_path / "two", tokenizer, settings)
    assert len(built.skipped) == 1
    assert "aa.txt, line 3" in built.skipped[0]
    assert built.skipped[0].endswith(" 1 document of this file came before it.")
    assert built.corpus.manifest["counts"]["documents_read"] == 451


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
    rng = random.Random(0)
    for place in [0, 7, 8, len(data) - 1, *rng.choices(range(len(data)), k=30)]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert any(name in sentence for sentence in verify(corpus)), place
    path.write_bytes(data[:-1])
    assert verify(corpus)
    path.unlink()
    assert "cannot be read" in verify(corpus)[0]
