"""Tags: one for every word of any text, valid in every scheme, wherever windows fall."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.core.heads.transitions import TransitionsModule
from clozeworks.errors import InputError
from clozeworks.tasks.spans.windows import Windows
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.tagging.viterbi import MoveScores
from clozeworks.text.training.train import train_from_iterator

SENTENCE = "the fox ran from London to New York 我 爱 学 习 。 é 🙂 naïve"
TOKENIZERS = {
    kind: train_from_iterator([SENTENCE] * 5, kind=kind, size=size)
    for kind, size in (("wordpiece", 100), ("bpe", 300), ("unigram", 60))
}
WORDPIECE = TOKENIZERS["wordpiece"]
BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")

words_of_texts = st.lists(
    st.sampled_from(SENTENCE.split())
    | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
    | st.text("e\u0301\u0327ก็가각ﬁ🙂👩\u200d🔬\ufe0f\u200b\u0007 我北", min_size=1, max_size=4),
    min_size=1,
    max_size=30,
)


def scores_of(windows, table):
    """Scores that depend on the token alone."""
    return [table[np.array(window.encoded.ids)[window.wanted]] for window in windows]


def right_scores(task, item, windows):
    """Scores that say exactly what is right."""
    found = []
    for window, target in zip(windows, task.targets(item, windows), strict=True):
        rows = np.zeros((len(window.wanted), len(task.labels)), np.float32)
        rows[np.arange(len(rows)), target.tokens[window.wanted]] = 20
        found.append(rows)
    return found


@settings(max_examples=150, deadline=None)
@given(
    words=words_of_texts,
    kind=st.sampled_from(sorted(TOKENIZERS)),
    most=st.sampled_from([12, 20, None]),
    seed=st.integers(0, 99),
)
def test_every_word_keeps_its_tag_in_any_text(words, kind, most, seed):
    rng, tokenizer = np.random.default_rng(seed), TOKENIZERS[kind]
    task = Tag(labels=BIO, windows=Windows(overlap=3))
    tags = [("O", "B-PER", "B-LOC")[n] for n in rng.integers(3, size=len(words))]
    item = WordsItem.of_words(words, tags)
    own = task.windows_of([item], tokenizer, most)

    whole = tokenizer.encode([item.text], offsets=True)[0]
    tokens = [n for n, part in enumerate(whole.part) if part == 0]
    firsts = {}  # the first token that touches each word
    for number, (begin, end) in enumerate(item.spans):
        for place, token in enumerate(tokens):
            if whole.offsets[token][1] > begin and whole.offsets[token][0] < end:
                firsts[number] = place
                break
    asked = {
        int(word): int(place) - window.before + window.first
        for window in own
        for word, place in zip(window.about, window.wanted, strict=True)
    }
    assert asked == firsts
    assert sum(len(window.about) for window in own) == len(firsts)

    shared = len(set(firsts.values())) < len(firsts)
    targets = task.targets(item, own)
    assert sum(int((target.tokens >= 0).sum()) for target in targets) == len(set(firsts.values()))
    answer = task.decode(item, own, right_scores(task, item, own))
    assert answer.words == tuple(words)
    assert len(answer.tags) == len(answer.scores) == len(words)
    if not shared:
        expected = [tag if number in firsts else "O" for number, tag in enumerate(tags)]
        assert list(answer.tags) == expected
    for entity in answer.entities:
        assert item.text[entity.begin : entity.end] == entity.text


@pytest.mark.parametrize("most", [None, 12])
def test_words_that_become_no_token_are_outside(most):
    words = ["the", "\u200b", "fox", "\u0007", "London", "\u200d\u200e", "York"] * 3
    tags = ["O", "B-PER", "B-PER", "I-PER", "B-LOC", "B-LOC", "I-LOC"] * 3
    item, task = WordsItem.of_words(words, tags), Tag(labels=BIO)
    own = task.windows_of([item], WORDPIECE, most)
    asked = sorted(np.concatenate([window.about for window in own]).tolist())
    assert asked == [n for n, word in enumerate(words) if word.isalpha()]
    scores = right_scores(task, item, own)
    answer = task.decode(item, own, scores)
    # What is left of London, nothing, York cannot be one entity.
    assert answer.tags[:6] == ("O", "O", "B-PER", "O", "B-LOC", "O")
    without = [tag for tag, word in zip(answer.tags, words, strict=True) if not word.isalpha()]
    assert without == ["O"] * 9
    plain = Tag(labels=("NOUN", "VERB"))
    said = plain.decode(item, own, [rows[:, :2] for rows in scores])
    assert len(said.tags) == len(words)


def test_a_text_without_words_or_tokens():
    task = Tag(labels=BIO)
    for words, tags in (([], ()), (["\u200b"], ("O",))):
        item = WordsItem.of_words(words)
        own = task.windows_of([item], WORDPIECE, 20)
        answer = task.decode(item, own, [np.zeros((0, 5), np.float32)])
        assert (answer.tags, answer.entities) == (tags, ())


def labels_of(letters):
    return ("O", *(f"{letter}-{kind}" for kind in ("A", "B") for letter in letters))


# What is valid, with small letters for entities of type A and capital ones for type B.
SCHEMES = {
    "BIO": (labels_of("BI"), r"(o|bi*|BI*)*"),
    "IOB1": (labels_of("IB"), r"(o|i+(bi*)*|I+(BI*)*)*"),
    "BIOES": (labels_of("BIES"), r"(o|s|S|bi*e|BI*E)*"),
    "BMES": (labels_of("BMES"), r"(o|s|S|bm*e|BM*E)*"),
    "IO": (labels_of("I"), r"[oiI]*"),
}


def written(tags):
    """One letter for each tag."""
    short = [tag[0].lower() if tag == "O" or tag.endswith("-A") else tag[0] for tag in tags]
    return "".join(short)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_invalid_tags_never_come_out(scheme, learned):
    labels, valid = SCHEMES[scheme]
    task, rng = Tag(labels=labels, scheme=scheme), np.random.default_rng(0)
    plain = repaired = 0
    for round_ in range(60):
        item = WordsItem.of_words(["fox"] * int(rng.integers(1, 12)))
        own = task.windows_of([item], WORDPIECE, None)
        size = (1.0, 30.0, 1e5)[round_ % 3]
        scores = rng.normal(0, size, (len(item.spans), len(labels))).astype(np.float32)
        parts = [rng.normal(0, size, shape) for shape in (len(labels), (len(labels),) * 2)]
        moves = MoveScores(parts[0], parts[1], parts[0][::-1]) if learned else None
        tags = task.decode(item, own, [scores], moves).tags
        assert re.fullmatch(valid, written(tags)), tags
        best = [labels[n] for n in scores.argmax(axis=1)]
        plain += bool(re.fullmatch(valid, written(best)))
        repaired += list(tags) != best
    assert plain < 60 or scheme == "IO"  # else nothing was tried
    assert repaired or (scheme == "IO" and not learned)


def test_a_long_document_is_tagged_alike_however_it_is_read():
    rng = np.random.default_rng(1)
    words = rng.choice(["the", "fox", "ran", "to", "我", "爱", "🙂"], 50_000).tolist()
    item = WordsItem.of_words(words)
    table = rng.normal(0, 3, (WORDPIECE.size, len(BIO))).astype(np.float32)
    found = []
    for windows in (Windows(), Windows(length=512), Windows(length=90, step=31)):
        task = Tag(labels=BIO, windows=windows)
        own = task.windows_of([item], WORDPIECE, None)
        asked = np.concatenate([window.about for window in own])
        assert np.array_equal(np.sort(asked), np.arange(len(words)))
        found.append((len(own), task.decode(item, own, scores_of(own, table))))
    # 510 tokens and steps of 383; 88 tokens and steps of 31.
    assert [count for count, _ in found] == [1, 131, 1612]
    (_, one), *others = found
    assert len(set(one.tags)) > 2
    for count, other in others:
        assert (other.tags, other.scores, other.entities) == (one.tags, one.scores, one.entities)
        assert other.windows == count


def test_entities_of_bioes():
    task = Tag(labels=labels_of("BIES"))
    item = WordsItem.of_words(["New", "York", "to", "我", "爱", "学", "the", "fox"])
    own = task.windows_of([item], WORDPIECE, None)
    tags = ["B-A", "E-A", "S-B", "B-B", "I-B", "E-B", "O", "S-A"]
    shares = np.array([0.5, 0.7, 0.9, 0.6, 0.6, 0.9, 0.8, 0.95])
    scores = np.empty((8, len(task.labels)))
    for word, tag in enumerate(tags):
        scores[word] = (1 - shares[word]) / (len(task.labels) - 1)
        scores[word, task.labels.index(tag)] = shares[word]
    answer = task.decode(item, own, [np.log(scores).astype(np.float32)])
    assert list(answer.tags) == tags
    assert answer.scores == pytest.approx(shares.tolist(), abs=1e-6)
    assert [(each.type, each.text, each.begin, each.end) for each in answer.entities] == [
        ("A", "New York", 0, 8),
        ("B", "to", 9, 11),
        ("B", "我爱学", 12, 15),
        ("A", "fox", 20, 23),
    ]
    assert [each.score for each in answer.entities] == pytest.approx([0.6, 0.9, 0.7, 0.95])


def test_learned_moves_change_what_comes_out():
    task = Tag(labels=("N", "V", "D"), crf=True)
    item = WordsItem.of_words(["the", "fox", "ran"])
    own = task.windows_of([item], WORDPIECE, None)
    scores = np.array([[0, 0, 3], [1, 0.5, 0], [1, 0.6, 0]], np.float32)
    module = TransitionsModule(3)
    model = SimpleNamespace(heads={"transitions": module})
    assert task.decoder(model)(item, own, [scores]).tags == ("D", "N", "N")
    with torch.no_grad():
        module.move_bias[0, 0] = -2  # two nouns in a row are unlikely
    assert task.decoder(model)(item, own, [scores]).tags == ("D", "N", "V")
    with torch.no_grad():
        module.start_bias[0], module.end_bias[2] = 9, 9
    assert task.decoder(model)(item, own, [scores]).tags == ("N", "V", "D")
    without = Tag(labels=("N", "V", "D"))
    assert without.decoder(model)(item, own, [scores]).tags == ("D", "N", "N")


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        (None, "notes.conll, line 7 has no tags; give each word one."),
        (
            ["B-PERS", "O"],
            "notes.conll, line 7: the label is 'B-PERS'; the model knows: O, B-PER, I-PER, B-LOC, "
            "I-LOC; correct it, or train a model that knows it. Did you mean 'B-PER'?",
        ),
    ],
)
def test_tags_that_cannot_be_learned_are_refused(tags, sentence):
    task, item = Tag(labels=BIO), WordsItem.of_words(["the", "fox"], tags, "notes.conll, line 7")
    with pytest.raises(InputError) as caught:
        task.targets(item, task.windows_of([item], WORDPIECE, None))
    assert str(caught.value) == sentence


def test_a_model_of_single_characters_gets_raw_text_as_it_got_its_files():
    task = Tag(labels=("O", "B-T", "M-T", "E-T", "S-T"), characters=True)
    text = "王5月3日在IBM工作👩\u200d🔬。"
    raw = task.as_asked(WordsItem.of_text(text))
    assert raw.words == (*"王5月3日在IBM工作", "👩\u200d🔬", "。")
    assert all(
        text[begin:end] == word for (begin, end), word in zip(raw.spans, raw.words, strict=True)
    )
    given = WordsItem.of_words(raw.words, ["O"] * len(raw.words))
    assert task.as_asked(given) is given

    def pieces(item):
        return [window.encoded.ids for window in task.windows_of([item], WORDPIECE, None)]

    assert pieces(raw) == pieces(given)
    signs = task.as_asked(WordsItem.of_text("cafe\u0301s 🇨🇳 3.5"))
    assert signs.words == ("c", "a", "f", "e\u0301", "s", "🇨🇳", "3", ".", "5")
    kept = WordsItem.of_words(["IBM", "工"])
    assert task.as_asked(kept).words == ("IBM", "工")
    plain = Tag(labels=("O", "B-T"))
    assert "IBM" in plain.as_asked(WordsItem.of_text(text)).words
