"""A corpus of the Chinese Wikipedia: tokens and words as a straightforward way gives them."""

import gzip
import json
import random
from itertools import accumulate, islice, pairwise
from pathlib import Path

import pytest

from clozeworks.data.corpus.corpus import Corpus
from clozeworks.text.sentences import split_sentences
from clozeworks.text.tokenizer.tokenizer import Tokenizer

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
TEXTS = DATA / "text" / "zh" / "wiki_zh.jsonl.gz"
TOKENIZER = DATA / "tokenizers" / "bert-chinese"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TEXTS.is_file(), reason="the real data folder is not here"),
]


def documents():
    """The articles, each once, in order."""
    seen = set()
    with gzip.open(TEXTS, "rt", encoding="utf-8") as file:
        for line in file:
            text = json.loads(line)["text"].strip()
            if text and text not in seen:
                seen.add(text)
                yield text


def sentences_of(split, document):
    """The tokens and word starts of each sentence of a document."""
    begin, end = split.document_offsets[document : document + 2]
    bounds = split.sentence_offsets[begin : end + 1].tolist()
    return [split.read(a, b) for a, b in pairwise(bounds)]


def test_tokens_are_those_of_the_sentences(command, tmp_path):
    out = tmp_path / "out"
    wanted = ["--tokenizer", TOKENIZER, "--out", out, "--validation", "0", "--workers", "2"]
    outcome = command("corpus", "build", TEXTS, *wanted)
    assert (outcome.code, outcome.err.count("Traceback")) == (0, 0)
    assert command("corpus", "verify", out).code == 0
    split = Corpus.open(out).split()
    tokenizer = Tokenizer.load(TOKENIZER)
    chosen = set(random.Random(0).sample(range(split.documents), 300))
    texts = list(documents())
    assert split.documents == len(texts)
    for number in sorted(chosen):
        sentences = split_sentences(texts[number])
        encoded = tokenizer.encode(sentences, special=False)
        expected = [list(item.ids) for item in encoded if len(item)]
        assert [tokens.tolist() for tokens, _ in sentences_of(split, number)] == expected
    for objective in ("bert", "roberta", "albert", "spanbert", "simcse"):
        outcome = command("corpus", "batch", out, "--objective", objective, "--step", "1000")
        assert outcome.code == 0, outcome.err


def test_words_are_those_of_jieba(command, tmp_path):
    jieba = pytest.importorskip("jieba")
    jieba.setLogLevel("ERROR")
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    texts = list(islice(documents(), 400))
    source.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    wanted = ["--tokenizer", TOKENIZER, "--out", out, "--validation", "0"]
    assert command("corpus", "build", source, *wanted, "--words", "jieba").code == 0
    split = Corpus.open(out).split()
    tokenizer = Tokenizer.load(TOKENIZER)
    checked = longer = 0
    for number, text in enumerate(texts):
        sentences = split_sentences(text)
        encoded = tokenizer.encode(sentences, special=False, offsets=True)
        pairs = [pair for pair in zip(sentences, encoded, strict=True) if len(pair[1])]
        for (sentence, item), (_, starts) in zip(pairs, sentences_of(split, number), strict=True):
            begins = set(accumulate(map(len, jieba.lcut(sentence)), initial=0))
            places = [begin for begin, _ in item.offsets]
            # Parts of one character, as Hangul has them, are of one word.
            again = [False, *(a == b for a, b in pairwise(places))]
            expected = [
                place in begins and not part for place, part in zip(places, again, strict=True)
            ]
            expected[0] = True  # a sentence begins a word, even if its first word has no token
            assert starts.tolist() == expected, sentence
            checked += len(expected)
            longer += expected.count(False)
    assert checked > 100_000
    assert 0.2 < longer / checked < 0.6  # one word of two characters is the usual one
