"""What is shown: 80/10/10 by token, word and span, and where random tokens come from."""

import numpy as np
import pytest
from scipy.stats import chi2

from clozeworks.errors import SettingError, TokenizerError, UnsupportedError
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.noise.budget import Exact
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.noise.spans import Spans
from clozeworks.objectives.noise.whole_words import WholeWords
from clozeworks.objectives.noise.words import rows_of
from clozeworks.rng import RandomStream

CHANCE = RandomStream(5, "test")
MASK, VOCABULARY = 4, 200


def shown(show, choice, clean, source):
    """The hidden tokens, and what stands there instead."""
    draws = Draws.of(clean, CHANCE)
    places = choice.positions(clean, draws)
    ids = clean.ids.copy()
    show.write(ids, places, clean, draws, source)
    outside = np.ones(len(ids), bool)
    outside[places] = False
    assert (ids[outside] == clean.ids[outside]).all()
    return places, ids[places]


@pytest.fixture(scope="module")
def many(examples):
    return examples([126] * 6000)  # 19 hidden tokens each: 114,000 draws


def law(mask=0.8, random=0.1, keep=0.1):
    # A random token may happen to be the mask or the token itself.
    hit = random / VOCABULARY
    return [mask + hit, random - 2 * hit, keep + hit]


def kinds(clean, places, seen):
    masked, kept = seen == MASK, seen == clean.ids[places]
    return [masked.sum(), (~masked & ~kept).sum(), kept.sum()]


def test_eighty_ten_ten(many, source, fits):
    places, seen = shown(Corruption(), SingleTokens(), many, source)
    assert len(places) >= 100_000
    assert fits(kinds(many, places, seen), law()) > 1e-3
    # A split that is off by one percent is noticed.
    assert fits(kinds(many, places, seen), law(0.79, 0.11, 0.1)) < 1e-3
    other = Corruption(mask=0.79, random=0.11, keep=0.1)
    assert fits(kinds(many, *shown(other, SingleTokens(), many, source)), law()) < 1e-3


@pytest.mark.parametrize(
    "split", [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.5, 0.5, 0.0), (0.3, 0.1, 0.6)]
)
def test_any_split(split, examples, source):
    clean = examples([126] * 500)
    mask, random, keep = split
    places, seen = shown(
        Corruption(mask=mask, random=random, keep=keep), SingleTokens(), clean, source
    )
    found = np.array(kinds(clean, places, seen)) / len(places)
    assert np.abs(found - law(*split)).max() < 0.02
    if keep == 1:
        assert (seen == clean.ids[places]).all()
    if mask == 1:
        assert (seen == MASK).all()


def test_each_token_is_decided_alone(examples, source):
    """Masks of an example vary as 19 coins do; one draw per span varies far more."""
    clean = examples([126] * 4000, pieces=0.0)

    def spread(unit):
        places, seen = shown(
            Corruption(mask=0.8, random=0.0, keep=0.2, unit=unit), Spans(), clean, source
        )
        rows = rows_of(clean, places)
        hidden = np.bincount(rows)
        off = np.bincount(rows, seen == MASK) - 0.8 * hidden
        return chi2.cdf((off**2 / (0.16 * hidden)).sum(), len(clean))

    assert 1e-3 < spread("token") < 1 - 1e-3
    assert spread("span") > 1 - 1e-3


def test_random_tokens_come_from_the_whole_vocabulary(many, source, fits):
    everything = Corruption(mask=0.0, random=1.0, keep=0.0)
    _, seen = shown(everything, SingleTokens(), many, source)
    found = np.bincount(seen, minlength=VOCABULARY)
    assert len(found) == VOCABULARY and found[:5].all()  # special ones too
    assert fits(found, np.ones(VOCABULARY)) > 1e-3


def test_ordinary_tokens_are_no_special_ones(many, source, fits):
    everything = Corruption(mask=0.0, random=1.0, keep=0.0, random_from="ordinary")
    _, seen = shown(everything, SingleTokens(), many, source)
    found = np.bincount(seen, minlength=VOCABULARY)
    assert not found[:5].any()
    assert fits(found[5:], np.ones(VOCABULARY - 5)) > 1e-3


def test_corpus_tokens_follow_the_corpus(many, source, corpus, fits):
    everything = Corruption(mask=0.0, random=1.0, keep=0.0, random_from="corpus")
    _, seen = shown(everything, SingleTokens(), many, source)
    found = np.bincount(seen, minlength=VOCABULARY)
    frequent = np.bincount(corpus.at(np.arange(corpus.tokens)), minlength=VOCABULARY)
    there = frequent > 0
    assert not found[~there].any()
    assert fits(found[there], frequent[there]) > 1e-3
    assert fits(found[there], np.ones(there.sum())) < 1e-3  # uniform is rejected


def test_random_tokens_are_independent_of_what_was_drawn(many, source, fits):
    """Among the tenth that is random, ids are uniform too, though one draw decided both."""
    _, seen = shown(Corruption(keep=0.0, mask=0.9), SingleTokens(), many, source)
    found = np.bincount(seen[seen != MASK], minlength=VOCABULARY)
    assert fits(np.delete(found, MASK), np.ones(VOCABULARY - 1)) > 1e-3


def test_a_huge_vocabulary_is_reached_everywhere(many, fits):
    """A tenth of 2^32 draws is fewer than these ids: more are drawn, or four of five never come."""
    huge = Vocabularies(2**31, mask_id=MASK)
    places, seen = shown(Corruption(), SingleTokens(), many, huge)
    random = seen[(seen != MASK) & (seen != many.ids[places])]
    assert fits(np.bincount(random % 5), np.ones(5)) > 1e-3


@pytest.mark.parametrize("choice", [WholeWords(), Spans()], ids=["words", "spans"])
def test_a_unit_is_shown_in_one_way(choice, examples, runs, fits):
    source = Vocabularies(2**31, mask_id=MASK)  # so large that no random token is the right one
    clean = examples([100] * 6000, pieces=0.5)
    unit = "span" if isinstance(choice, Spans) else "word"
    places, seen = shown(Corruption(unit=unit), choice, clean, source)
    ids = clean.ids.copy()
    ids[places] = seen
    units = []
    for start, end in runs(clean, places):
        cuts = [p for p in range(start + 1, end) if clean.word_starts[p] and unit == "word"]
        units += list(zip([start, *cuts], [*cuts, end], strict=True))
    found = {"mask": 0, "keep": 0, "random": 0}
    for start, end in units:
        now, before = ids[start:end], clean.ids[start:end]
        if (now == MASK).all():
            found["mask"] += 1
        elif (now == before).all():
            found["keep"] += 1
        else:
            assert not (now == before).any() and not (now == MASK).any()
            found["random"] += 1
    assert sum(found.values()) > 14_000
    assert fits(list(found.values()), [0.8, 0.1, 0.1]) > 1e-3


def test_words_beside_each_other_are_decided_apart(examples, fits):
    """Of two neighbouring hidden words, each of its own draw: 64 % of pairs are masked both."""
    source = Vocabularies(2**31, mask_id=MASK)
    clean = examples([100] * 4000, pieces=0.5)
    show = Corruption(mask=0.8, random=0.0, keep=0.2, unit="word")
    hide = WholeWords(budget=Exact(fraction=0.5))
    places, seen = shown(show, hide, clean, source)
    masked = dict(zip(places.tolist(), (seen == MASK).tolist(), strict=True))
    begins = set(np.flatnonzero(clean.word_starts & ~clean.special).tolist())
    pairs = [(masked[p - 1], masked[p]) for p in masked if p in begins and p - 1 in masked]
    counts = [sum(pair == kind for pair in pairs) for kind in np.ndindex(2, 2)]
    assert len(pairs) > 20_000
    assert fits(counts, [0.04, 0.16, 0.16, 0.64]) > 1e-3


def test_one_draw_per_token_breaks_up_spans(examples, source, runs):
    """The negative control of the test before: BERT's rule mixes what a span shows."""
    clean = examples([100] * 200, pieces=0.5)
    places, seen = shown(Corruption(unit="token"), Spans(), clean, source)
    ids = clean.ids.copy()
    ids[places] = seen
    long = [(start, end) for start, end in runs(clean, places) if end - start >= 4]
    mixed = [(ids[s:e] == MASK).any() and not (ids[s:e] == MASK).all() for s, e in long]
    assert np.mean(mixed) > 0.3


def test_what_cannot_be_shown(examples, corpus):
    clean = examples([20])
    places = np.arange(1, 10)
    everything = Vocabularies(VOCABULARY, mask_id=None)

    def write(show, source):
        show.write(clean.ids.copy(), places, clean, Draws.of(clean, CHANCE), source)

    with pytest.raises(TokenizerError) as caught:
        write(Corruption(), everything)
    assert str(caught.value) == (
        "the tokenizer's mask token is None; masking needs one; train a tokenizer with a "
        "mask token, or set show.mask to 0."
    )
    write(Corruption(mask=0.0, random=0.9, keep=0.1), everything)
    with pytest.raises(UnsupportedError) as caught:
        write(Corruption(random_from="corpus"), Vocabularies(VOCABULARY, mask_id=4))
    assert str(caught.value) == (
        "show.random_from is 'corpus' and no corpus is available; random tokens then have nowhere "
        "to come from; give a split, or set it to 'vocabulary' or 'ordinary'."
    )
    with pytest.raises(SettingError) as caught:
        Corruption(mask=0.8, random=0.2, keep=0.1)
    assert str(caught.value) == (
        "mask is 0.8; `mask`, `random` and `keep` must add up to 1, and make 1.1; change one of "
        "them."
    )
    with pytest.raises(SettingError, match=r"^keep is -0.1; it must be at least 0 and at most 1.$"):
        Corruption(mask=1.0, random=0.1, keep=-0.1)
