"""Against the published vocabularies and the reference tokenisation."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.slow


def some_texts(data, language: str, count: int) -> list[str]:
    path = data / "text" / language / f"wiki_{language}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [
            json.loads(line)["text"][:2000] for line, _ in zip(lines, range(count), strict=False)
        ]


@pytest.fixture(scope="module")
def questions(data):
    with gzip.open(data / "tokenizers/bert-uncased/question_tokens.json.gz") as packed:
        return json.load(packed)


def test_every_question_as_the_reference(data, questions):
    folder = data / "tokenizers/bert-uncased"
    tokenizer = Tokenizer.load(folder)
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    numbers = {token: index for index, token in enumerate(lines)}
    assert len(questions) == 10_570
    found = tokenizer.encode([question["original"] for question in questions], special=False)
    for question, item in zip(questions, found, strict=True):
        assert [tokenizer.token_of(token_id) for token_id in item.ids] == question["wordpiece"]
        assert item.ids == [numbers[token] for token in question["wordpiece"]]


@pytest.mark.parametrize(
    ("name", "size"), [("bert-uncased", 30_522), ("gpt2", 50_257), ("roberta", 50_265)]
)
def test_load_save_load(data, tmp_path, name, size):
    first = Tokenizer.load(data / "tokenizers" / name)
    assert first.size == size
    first.save(tmp_path)
    second = Tokenizer.load(tmp_path)
    assert second.fingerprint == first.fingerprint
    texts = some_texts(data, "en", 50) + some_texts(data, "zh", 50)
    assert second.encode(texts, texts[::-1]) == first.encode(texts, texts[::-1])


def test_chinese_vocabulary_repeats_tokens(data, tmp_path):
    folder = data / "tokenizers/bert-chinese"
    with pytest.raises(TokenizerError, match=r"stands already on line"):
        Tokenizer.load(folder, repeats="error")
    first = Tokenizer.load(folder)
    assert first.size == 21_128
    first.save(tmp_path)
    assert not (tmp_path / "vocab.txt").exists()
    second = Tokenizer.load(tmp_path)
    texts = some_texts(data, "zh", 100)
    assert (second.size, second.fingerprint) == (first.size, first.fingerprint)
    assert second.encode(texts) == first.encode(texts)


def test_roberta_files_and_its_json_agree(data, questions, tmp_path):
    folder = data / "tokenizers/roberta"
    whole = Tokenizer.load(folder)
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).symlink_to(folder / name)
    parts = Tokenizer.load(tmp_path)
    assert parts.special == whole.special
    texts = [question["original"] for question in questions[:3000]]
    texts += some_texts(data, "en", 100) + some_texts(data, "zh", 100)
    texts += ["Paris is the <mask> of France.", "😀 <s> </s>", "  a\n\n b"]
    assert parts.encode(texts, offsets=True) == whole.encode(texts, offsets=True)
    assert parts.encode(texts, texts[::-1]) == whole.encode(texts, texts[::-1])


def test_known_ids(data):
    roberta = Tokenizer.load(data / "tokenizers/roberta")
    assert roberta.encode(["Hello world"])[0].ids == [0, 31414, 232, 2]
    assert roberta.encode([" Hello world"])[0].ids == [0, 20920, 232, 2]
    assert (roberta.first_id, roberta.pad_id, roberta.last_id, roberta.mask_id) == (0, 1, 2, 50_264)
    assert roberta.single_id("Paris") == roberta.id_of("ĠParis")
    t5 = Tokenizer.load(data / "tokenizers/t5-small")
    assert t5.size == 32_100 and len(t5.special.extra) == 100
    assert t5.special.last == "</s>" and t5.mask_id is None


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_real_text_gives_the_same_bytes(data, tmp_path, kind):
    text = tmp_path / "text.txt"
    lines = some_texts(data, "en", 1500) + some_texts(data, "zh", 500)
    text.write_text("\n".join(lines), encoding="utf-8")
    program = (
        "import sys, clozeworks as cw; "
        "cw.train_tokenizer(sys.argv[1:2], kind=sys.argv[2], size=8000).save(sys.argv[3])"
    )
    found = set()
    for run in range(5):
        out = tmp_path / str(run)
        out.mkdir()
        environment = dict(
            os.environ,
            PYTHONHASHSEED=str(run),
            RAYON_NUM_THREADS=str(1 + run % 2),
            PYTHONPATH=str(Path(__file__).resolve().parents[3] / "src"),
        )
        arguments = [sys.executable, "-c", program, str(text), kind, str(out)]
        subprocess.run(arguments, check=True, env=environment)
        found.add((out / "tokenizer.json").read_bytes())
    assert len(found) == 1


def test_chinese_text_is_known(data, tmp_path):
    texts = some_texts(data, "zh", 2000)
    trained = train_from_iterator(texts[:1800], kind="wordpiece", size=8000)
    found = trained.encode(texts[1800:], special=False)
    unknown = sum(item.ids.count(trained.unknown_id) for item in found)
    assert unknown < 0.01 * sum(map(len, found))
