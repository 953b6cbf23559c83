"""Rules about scores, each on numbers one can check by hand."""

import pytest
import torch

from clozeworks.errors import SettingError
from clozeworks.generate.logits_processors import (
    BadWords,
    FirstTokens,
    History,
    InTurn,
    Known,
    MinNewTokens,
    MinP,
    NoRepeatedNGrams,
    Occurrence,
    RepetitionPenalty,
    RequiredWords,
    Temperature,
    TopK,
    TopP,
    Typical,
    applied,
)

CPU = torch.device("cpu")
NEVER = -torch.inf


def history(*texts, written=()):
    """Rows that were given texts, and what was written behind, one list for each row."""
    steps = len(written[0]) if written else 0
    made = History(texts, steps + 8, CPU)
    for step in range(steps):
        made.add(torch.tensor([row[step] for row in written]))
    return made


def kept(scores):
    return [row.isfinite().nonzero().squeeze(1).tolist() for row in scores]


def test_history_knows_rows_of_different_lengths():
    made = history([1, 2, 3], [9], written=[[4, 5], [6, 7]])
    assert made.row(0) == [1, 2, 3, 4, 5] and made.row(1) == [9, 6, 7]
    assert made.written_row(1) == [6, 7] and made.written == 2
    assert made.tokens().tolist() == [[1, 2, 3, 4, 5], [7, 7, 9, 6, 7]]
    made.choose([1])
    assert made.row(0) == [9, 6, 7] and made.tokens().tolist() == [[7, 7, 9, 6, 7]]


def test_repetition_counts_a_token_once_and_divides_or_multiplies():
    scores = torch.tensor([[2.0, -2.0, 4.0, 1.0]])
    found = RepetitionPenalty(penalty=2.0)(scores, history([0, 0, 1], written=[[0]]))
    assert found.tolist() == [[1.0, -4.0, 4.0, 1.0]]


def test_rows_that_no_token_has_are_never_drawn():
    scores = torch.ones(2, 6)
    found = Known(count=4)(scores, history([0], [1]))
    assert kept(found) == [[0, 1, 2, 3]] * 2 and scores.isfinite().all()


def test_presence_and_frequency_count_what_was_written():
    scores = torch.zeros(1, 4)
    found = Occurrence(presence=1.0, frequency=0.5)(scores, history([3, 3], written=[[1, 1, 2]]))
    assert found.tolist() == [[0.0, -2.0, -1.5, 0.0]]


def test_ngrams():
    scores = torch.zeros(2, 6)
    rows = history([1, 2, 3, 1], [4, 4], written=[[2], [5]])
    assert kept(NoRepeatedNGrams(size=3)(scores, rows)) == [[0, 1, 2, 4, 5], [0, 1, 2, 3, 4, 5]]
    assert kept(NoRepeatedNGrams(size=1)(scores, rows)) == [[0, 4, 5], [0, 1, 2, 3]]
    short = history([1], [2])
    assert kept(NoRepeatedNGrams(size=3)(scores, short)) == [[0, 1, 2, 3, 4, 5]] * 2


def test_bad_words():
    scores = torch.zeros(3, 5)
    rows = history([1, 2], [2, 1], [0, 2])  # the whole beginning of a word, and parts of it
    whole = [0, 1, 2, 3]
    assert kept(BadWords(words=((4,), (1, 2, 3)))(scores, rows)) == [[0, 1, 2], whole, whole]


def test_required_words_are_begun_in_time_and_no_end_before():
    rule = RequiredWords(words=((1, 2), (3,)), ends=(0,), max_new_tokens=4)
    scores = torch.zeros(1, 5)
    assert kept(rule(scores, history([4]))) == [[1, 2, 3, 4]]  # room for one other token
    assert kept(rule(scores, history([4], written=[[4]]))) == [[3]]
    assert kept(rule(scores, history([4], written=[[3, 4, 1]]))) == [[2]]
    assert kept(rule(scores, history([4], written=[[3, 1, 2]]))) == [[0, 1, 2, 3, 4]]


def test_a_required_token_that_another_rule_forbids_is_written():
    rule = RequiredWords(words=((1,),), ends=(0,), max_new_tokens=1)
    assert kept(rule(torch.full((1, 3), NEVER), history([2]))) == [[1]]


def test_first_tokens_come_first_even_if_another_rule_forbids_them():
    rule = FirstTokens(tokens=(2, 0))
    assert kept(rule(torch.zeros(2, 3), history([1], [0]))) == [[2], [2]]
    assert kept(rule(torch.full((1, 3), NEVER), history([1], written=[[2]]))) == [[0]]
    assert kept(rule(torch.zeros(1, 3), history([1], written=[[2, 0]]))) == [[0, 1, 2]]


def test_at_least():
    rule = MinNewTokens(tokens=2, ends=(0, 3))
    scores = torch.zeros(1, 4)
    assert kept(rule(scores, history([1], written=[[1]]))) == [[1, 2]]
    assert kept(rule(scores, history([1], written=[[1, 1]]))) == [[0, 1, 2, 3]]


def test_filters():
    scores = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()
    rows = history([0])
    assert kept(TopK(count=2)(scores, rows)) == [[0, 1]]
    assert kept(TopK(count=9)(scores, rows)) == [[0, 1, 2, 3]]
    assert kept(TopP(mass=0.6)(scores, rows)) == [[0, 1]]  # the one that crosses is kept
    assert kept(TopP(mass=0.4)(scores, rows)) == [[0]]
    assert kept(MinP(p=0.29)(scores, rows)) == [[0, 1, 2]]
    assert kept(Typical(mass=0.2)(scores, rows)) == [[1]]  # entropy 1.21, its surprise 1.39
    assert torch.equal(Temperature(value=2.0)(scores, rows), scores / 2)


def test_ties_with_the_last_of_top_k_are_kept():
    assert kept(TopK(count=1)(torch.tensor([[1.0, 1.0, 0.0]]), history([0]))) == [[0, 1]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RepetitionPenalty(penalty=0.0), "penalty is 0.0; it must be above 0."),
        (
            lambda: Temperature(value=-1.0),
            "value is -1.0; it must be a finite number and at least 0.001; set 0 for greedy "
            "decoding.",
        ),
        (lambda: TopK(count=0), "count is 0; it must be at least 1."),
        (lambda: TopP(mass=1.5), "mass is 1.5; it must be above 0 and at most 1."),
        (lambda: MinP(p=0.0), "p is 0.0; it must be above 0 and at most 1."),
        (lambda: Typical(mass=2.0), "mass is 2.0; it must be above 0 and at most 1."),
        (lambda: NoRepeatedNGrams(size=0), "size is 0; it must be at least 1."),
    ],
)
def test_numbers_that_cannot_be(make, said):
    with pytest.raises(SettingError) as raised:
        make()
    assert str(raised.value) == said


def test_tokens_come_in_turn_with_another_behind_each_and_no_end_before():
    rule = InTurn(tokens=(5, 6), ends=(0, 7), max_new_tokens=8)
    scores = torch.zeros(1, 8)
    for written, possible in [
        ([], [5]),  # the first at once
        ([5], [1, 2, 3, 4]),  # something behind it
        ([5, 1], [1, 2, 3, 4, 6]),  # the next may come, and no other
        ([5, 1, 1, 1, 1, 1], [6]),  # just room for it and a token
        ([5, 1, 6], [1, 2, 3, 4]),
        ([5, 1, 6, 2], [0, 1, 2, 3, 4, 7]),  # all are there: it may end
    ]:
        assert kept(rule(scores, history([9], written=[written]))) == [possible], written


def test_of_a_forced_token_a_search_knows_one_way_only():
    """What a rule forbids is no text, although a search looks at more than is possible."""
    from clozeworks.generate.beams import Beams, search
    from clozeworks.generate.sampling import Limits

    class Even:
        def prefill(self):
            return torch.zeros(1, 8)

        def step(self, tokens):
            return torch.zeros(len(tokens), 8)

        def reorder(self, rows):
            pass

        reorder_prompts = reorder

    rule = InTurn(tokens=(5, 6), ends=(0,), max_new_tokens=6)
    limits = Limits(max_new_tokens=6, ends=(0,))
    (found,) = search(Even(), [[9]], beams=Beams(num_beams=4), limits=limits, rules=[rule])
    assert len(found) == 4
    for text in found:
        assert text.score > NEVER and text.tokens[0] == 5 and text.tokens.count(6) == 1


@pytest.mark.parametrize(("ends", "possible"), [((3,), [3]), ((), [0, 1, 2, 3])])
def test_where_rules_forbid_everything_a_text_may_end(ends, possible):
    rule = BadWords(words=((0,), (1,), (2,), (3,)))
    scores = torch.zeros(2, 4)
    assert kept(applied([rule], scores, history([0], [1]), ends)) == [possible, possible]
    assert applied([rule], scores, history([0], [1]), ends).max() == 0
    assert kept(applied([BadWords(words=((0,),))], scores[:1], history([0]), ends)) == [[1, 2, 3]]


@pytest.mark.parametrize("name", ["presence", "frequency"])
def test_what_would_be_no_number_is_refused(name):
    with pytest.raises(
        SettingError, match=f"{name} is 1e\\+308; it must be at least -10,000 and at most 10,000"
    ):
        Occurrence(**{name: 1e308})
