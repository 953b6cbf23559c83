"""Answers: the published rules written once more, plainly, and what must hold whatever the text."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.spans.windows import Windows
from clozeworks.text.training.train import train_from_iterator

WORDS = [
    "the",
    "fox",
    "ran",
    "to",
    "New",
    "York,",
    "lazy",
    "dogs",
    "我爱",
    "学习。",
    "é",
    "🙂",
    "a",
]
TOKENIZERS = {
    kind: train_from_iterator([" ".join(WORDS)] * 5, kind=kind, size=size)
    for kind, size in (("wordpiece", 90), ("bpe", 300), ("unigram", 60))
}
QUESTION = "the fox ran"

kinds = st.sampled_from(sorted(TOKENIZERS))


def context_of(size, seed):
    rng = np.random.default_rng(seed)
    words = rng.choice([*WORDS, "ꙮ", "Q"], size)
    between = rng.choice([" ", " ", "\t", "\n  ", "-"], size)
    return "".join(word + space for word, space in zip(words, between, strict=True))


# Long ones are common, so that most are read through several windows.
contexts = st.builds(context_of, st.integers(1, 60) | st.integers(30, 60), st.integers(0, 9999))
window_settings = st.builds(Windows, length=st.integers(20, 40), step=st.integers(3, 20))


def windows_of(task, item, kind):
    return task.windows_of([item], TOKENIZERS[kind], 64)


def scores_for(windows, seed):
    """Random scores; every second time whole numbers, so that many are equal."""
    rng = np.random.default_rng(seed)
    found = [rng.normal(0, 3, (len(window), 2)) for window in windows]
    return [(rows.round() if seed % 2 else rows).astype(np.float32) for rows in found]


class ByHand:
    """The windows of a context and the stretches each may answer with, as the rules say."""

    def __init__(self, item, task, kind):
        whole = TOKENIZERS[kind].encode([item.question], [item.context], offsets=True)[0]
        places = [place for place, part in enumerate(whole.part) if part == 1]
        self.task, self.context = task, item.context
        self.offsets = [whole.offsets[place] for place in places]
        self.before = places[0]
        room = task.windows.length - (len(whole) - len(places))
        self.spans = [(0, min(room, len(places)))]
        while sum(self.spans[-1]) < len(places):
            begin = self.spans[-1][0] + min(task.windows.step, self.spans[-1][1])
            self.spans.append((begin, min(room, len(places) - begin)))

    def owner(self, token):
        """The window in which a token has most context; of equal ones the first."""
        best, most = None, -1.0
        for number, (begin, count) in enumerate(self.spans):
            if begin <= token < begin + count:
                left, right = token - begin, begin + count - 1 - token
                if min(left, right) + 0.01 * count > most:
                    best, most = number, min(left, right) + 0.01 * count
        return best

    def stretches(self, scores, most):
        """Points, first and last token of every stretch made of the best beginnings and ends."""
        for number, ((begin, count), rows) in enumerate(zip(self.spans, scores, strict=True)):
            order = range(len(rows))
            starts = sorted(order, key=lambda n, rows=rows: float(rows[n][0]), reverse=True)
            ends = sorted(order, key=lambda n, rows=rows: float(rows[n][1]), reverse=True)
            inside = range(self.before, self.before + count)
            for start in starts[:most]:
                for end in ends[:most]:
                    if start not in inside or end not in inside or end < start:
                        continue
                    if end - start + 1 > self.task.longest:
                        continue
                    first, last = (place - self.before + begin for place in (start, end))
                    if self.owner(first) == number:
                        yield float(rows[start][0]) + float(rows[end][1]), first, last

    def text(self, first, last):
        return self.context[self.offsets[first][0] : self.offsets[last][1]].lstrip()

    def answer(self, scores):
        """The text, the candidates with their probabilities, and how far "none" is ahead."""
        most, threshold = self.task.n_best, self.task.threshold
        kept = []
        for points, first, last in sorted(
            self.stretches(scores, most), key=lambda found: found[0], reverse=True
        ):
            text = self.text(first, last)
            if text and text not in [other for other, _ in kept] and len(kept) < most:
                kept.append((text, points))
        none = min(float(rows[0][0]) + float(rows[0][1]) for rows in scores)
        lead = none - kept[0][1] if kept and threshold is not None else None
        said = kept[0][0] if kept and (lead is None or lead <= threshold) else ""
        if threshold is not None or not kept:
            kept = sorted([*kept, ("", none)], key=lambda each: each[1], reverse=True)
        total = sum(math.exp(points - kept[0][1]) for _, points in kept)
        shares = [(text, math.exp(points - kept[0][1]) / total) for text, points in kept]
        return said, shares, lead


@settings(max_examples=80, deadline=None)
@given(
    kind=kinds,
    context=contexts,
    windows=window_settings,
    n_best=st.integers(1, 8),
    longest=st.integers(1, 6),
    threshold=st.sampled_from([None, -2.0, 0.0, 3.5]),
    seed=st.integers(0, 999),
)
def test_decoding_equals_the_published_rules(
    kind, context, windows, n_best, longest, threshold, seed
):
    task = Answer(threshold=threshold, n_best=n_best, longest=longest, windows=windows)
    item = QuestionItem(QUESTION, context)
    plain = ByHand(item, task, kind)
    own = windows_of(task, item, kind)
    assert [(window.first, window.count) for window in own] == plain.spans
    scores = scores_for(own, seed)
    answer = task.decode(item, own, scores)
    said, shares, lead = plain.answer(scores)
    assert (answer.text, answer.windows) == (said, len(own))
    assert [each.text for each in answer.candidates] == [text for text, _ in shares]
    expected = pytest.approx([share for _, share in shares], abs=1e-9)
    assert [each.score for each in answer.candidates] == expected
    assert answer.lead == (None if lead is None else pytest.approx(lead))
    assert all(item.context[each.begin : each.end] == each.text for each in answer.candidates)
    assert said == ("" if answer.begin is None else context[answer.begin : answer.end])


@settings(max_examples=30, deadline=None)
@given(kind=kinds, context=contexts, windows=window_settings, seed=st.integers(0, 99))
def test_with_all_candidates_it_is_brute_force(kind, context, windows, seed):
    task = Answer(n_best=10**6, longest=5, windows=windows)
    item = QuestionItem(QUESTION, context)
    own = windows_of(task, item, kind)
    scores = scores_for(own, seed)
    plain, best = ByHand(item, task, kind), {}
    for number, (begin, count) in enumerate(plain.spans):
        for first in range(begin, begin + count):
            for last in range(first, min(first + 5, begin + count)):
                if plain.owner(first) == number and plain.text(first, last):
                    row = plain.before - begin
                    points = float(scores[number][first + row, 0])
                    points += float(scores[number][last + row, 1])
                    text = plain.text(first, last)
                    best[text] = max(points, best.get(text, -math.inf))
    found = {each.text: each.points for each in task.decode(item, own, scores).candidates}
    assert found == best if best else found.keys() == {""}


def test_a_higher_threshold_never_gives_fewer_answers():
    rng = np.random.default_rng(0)
    cases = []
    for seed in range(40):
        item = QuestionItem(QUESTION, " ".join(rng.choice(WORDS, 30)))
        own = windows_of(Answer(windows=Windows(length=24, step=7)), item, "wordpiece")
        cases.append((item, own, [rows + (seed % 5) for rows in scores_for(own, 2 * seed)]))
    counts = []
    for threshold in range(-40, 10, 2):
        task = Answer(threshold=float(threshold))
        answers = [task.decode(*case) for case in cases]
        counts.append(sum(not answer.text for answer in answers))
        assert all((not a.text) == (a.lead > threshold) for a in answers)
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (40, 0)


@settings(max_examples=80, deadline=None)
@given(kind=kinds, context=contexts, windows=window_settings, data=st.data())
def test_targets_are_the_tokens_that_touch_the_answer(kind, context, windows, data):
    begin = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(begin + 1, len(context)))
    item = QuestionItem(QUESTION, context, (AnswerSpan(context[begin:end], begin),))
    task = Answer(windows=windows)
    own = windows_of(task, item, kind)
    plain = ByHand(item, task, kind)
    touching = [n for n, (b, e) in enumerate(plain.offsets) if e > begin and b < end]
    for window, target in zip(own, task.targets(item, own), strict=True):
        if not touching or touching[0] < window.first:
            inside = False
        else:
            inside = touching[-1] < window.first + window.count
        if not inside:
            assert target.label.tolist() == [0, 0]
            continue
        first, last = target.label - window.before + window.first
        assert [first, last] == [touching[0], touching[-1]]
        assert (
            context[begin:end].strip() in context[plain.offsets[first][0] : plain.offsets[last][1]]
        )


def test_an_answer_across_the_border_of_windows_stands_whole_in_one_of_them():
    context = " ".join(["fox", "ran"] * 20)
    begin = len("fox ran " * 8)
    item = QuestionItem("the fox", context, (AnswerSpan("fox ran fox", begin),))
    task = Answer(windows=Windows(length=23, step=9))  # 18 tokens of the context in each
    own = task.windows_of([item], TOKENIZERS["wordpiece"], 64)
    assert [window.first for window in own] == [0, 9, 18, 27]
    labels = [target.label.tolist() for target in task.targets(item, own)]
    assert labels == [[0, 0], [11, 13], [0, 0], [0, 0]]  # token 16 to 18 of the context


def test_an_impossible_question_asks_every_window_for_none():
    item = QuestionItem("the fox", "fox ran " * 20, impossible=True)
    task = Answer(windows=Windows(length=23, step=9))
    own = task.windows_of([item], TOKENIZERS["wordpiece"], 64)
    assert {tuple(target.label.tolist()) for target in task.targets(item, own)} == {(0, 0)}


def test_a_context_of_unknown_tokens_can_still_be_sliced():
    item = QuestionItem("the fox", "ꙮꙮ ꙮ\tꙮꙮꙮ", (AnswerSpan("ꙮ", 3),))
    task = Answer()
    own = windows_of(task, item, "wordpiece")
    tokenizer = TOKENIZERS["wordpiece"]
    assert {tokenizer.token_of(n) for n in own[0].encoded.ids[own[0].moving]} == {"[UNK]"}
    (target,) = task.targets(item, own)
    rows = np.zeros((len(own[0]), 2), np.float32)
    rows[target.label[0], 0] = rows[target.label[1], 1] = 9
    answer = task.decode(item, own, [rows])
    assert (answer.text, answer.begin, answer.end) == ("ꙮ", 3, 4)


@pytest.mark.parametrize("threshold", [None, 0.0])
def test_a_context_without_a_token_has_no_answer(threshold):
    item = QuestionItem("the fox", "\u200b\u200b", impossible=True)
    task = Answer(threshold=threshold)
    own = windows_of(task, item, "wordpiece")
    assert [window.count for window in own] == [0]
    answer = task.decode(item, own, [np.full((len(own[0]), 2), -1, np.float32)])
    assert (answer.text, answer.begin, answer.score, answer.lead) == ("", None, 1.0, None)
    measured = task.measure([item], [answer])
    assert measured.value == 1


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (
            QuestionItem("the fox", " \n", source_location="faq.json, question 3"),
            "faq.json, question 3: the context is empty; an answer stands in its context; give "
            "one.",
        ),
        (
            QuestionItem("fox " * 60, "ran " * 30),
            "question 1: 63 tokens stand in every window (special ones and the text that is not "
            "cut), and a window has 64; there must be room for 8 of the long text; shorten the "
            "other text, or raise windows.length.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(item, sentence):
    with pytest.raises(InputError) as caught:
        windows_of(Answer(), item, "wordpiece")
    assert str(caught.value) == sentence


def test_a_question_without_an_answer_is_not_trained_on():
    item = QuestionItem("the fox", "fox ran")
    with pytest.raises(InputError) as caught:
        Answer().targets(item, windows_of(Answer(), item, "wordpiece"))
    assert str(caught.value) == ("the question has no answer; give one, or mark it as impossible.")


@pytest.mark.parametrize("name", ["n_best", "longest"])
def test_settings_that_cannot_be(name):
    with pytest.raises(SettingError) as caught:
        replace(Answer(), **{name: 0})
    assert str(caught.value) == f"{name} is 0; it must be at least 1."


@pytest.mark.parametrize(
    ("windows", "most", "step"),
    [
        (Windows(), 512, 128),  # as published: windows of 384, 128 apart
        (Windows(length=96), 512, 32),
        (Windows(), 60, 20),
        (Windows(length=96, step=10), 512, 10),
    ],
)
def test_windows_are_a_third_of_their_length_apart(windows, most, step):
    item = QuestionItem("who", "the fox ran " * 300)
    found = Answer(windows=windows).windows_of([item], TOKENIZERS["wordpiece"], most)
    assert found[1].first - found[0].first == step
