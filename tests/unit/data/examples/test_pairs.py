"""Pairs over many instances: what must always hold, and what must hold on average."""

import numpy as np
import pytest
from scipy.stats import chisquare

from clozeworks.data.examples.outline import Outline, chain
from clozeworks.data.examples.pair_loop import (
    NextSentenceLoop,
    SentenceOrderLoop,
)
from clozeworks.data.examples.pairs import NextSentencePairs, SentenceOrderPairs
from clozeworks.errors import InputError, SettingError
from clozeworks.rng import RandomStream

LENGTH = 64
ROOM = LENGTH - 3
CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def mixed(drawn):
    """Documents of 1 to 60 sentences of 1 to 40 tokens."""
    return drawn(1200, (1, 60), (1, 40))


def uncut(loop):
    """All pairs before they are cut."""
    return loop.pairs(chain(len(loop.outline.sentences) - 1, loop.following))


def next_sentence(split, room=ROOM, short=0.1, seed=0, copy=0, kind=NextSentenceLoop):
    return kind(Outline.of(split), room, short, RandomStream(seed, "pairs"), copy)


def document_of(outline, tokens):
    bounds = outline.sentences[outline.documents]
    return np.searchsorted(bounds, tokens, side="right") - 1


@pytest.mark.parametrize("spec", [NextSentencePairs, SentenceOrderPairs])
def test_the_form_of_every_pair(spec, mixed, bert, everything):
    examples = spec(length=LENGTH).arrange(mixed, bert, seed=0)
    arranged = everything(examples)
    assert len(arranged) >= 10_000
    count = lambda mask: np.add.reduceat(mask.astype(int), arranged.starts)  # noqa: E731
    assert arranged.lengths.max() == LENGTH == examples.longest
    assert (count(arranged.ids == CLS) == 1).all()
    assert (count(arranged.ids == SEP) == 2).all()
    assert (count(arranged.special) == 3).all()
    assert (arranged.ids[arranged.starts] == CLS).all()
    assert (arranged.ids[arranged.starts + arranged.lengths - 1] == SEP).all()
    # Types: 0 up to the first [SEP], 1 from there to the second; a token of text in both parts.
    assert (np.diff(arranged.types) == 1).sum() == len(arranged)
    second = count(arranged.types == 1)
    assert (second >= 2).all() and (arranged.lengths - second >= 3).all()
    assert np.isclose(arranged.lengths.mean(), examples.mean_length)
    assert set(arranged.labels) == {0, 1}


def test_next_pairs_are_contiguous_and_random_ones_from_another_document(mixed):
    loop = next_sentence(mixed)
    pairs = uncut(loop)
    follows = pairs.labels == 0
    assert len(pairs.labels) >= 10_000
    assert (pairs.ends[follows, 0] == pairs.begins[follows, 1]).all()
    first, second = (document_of(loop.outline, pairs.begins[:, side]) for side in (0, 1))
    assert (document_of(loop.outline, pairs.ends - 1) == np.stack([first, second], axis=1)).all()
    assert (first[follows] == second[follows]).all()
    assert (first[~follows] != second[~follows]).all()


class Forgetful(NextSentenceLoop):
    """The usual mistake: what a random second text leaves over is not put back."""

    def following(self, chunks):
        return self.chunk_ends(chunks)


def shown(loop):
    """The share of tokens that stand in a first text or in a second one that follows."""
    pairs = uncut(loop)
    seen = np.zeros(loop.outline.sentences[-1] + 1, dtype=np.int64)
    for side, chosen in ((0, pairs.labels >= 0), (1, pairs.labels == 0)):
        np.add.at(seen, pairs.begins[chosen, side], 1)
        np.add.at(seen, pairs.ends[chosen, side], -1)
    return (np.cumsum(seen)[:-1] == 1).mean()  # and never twice


def test_every_sentence_is_shown_once_because_unused_ones_are_put_back(mixed):
    assert shown(next_sentence(mixed)) == 1
    assert shown(next_sentence(mixed, kind=Forgetful)) < 0.85


def test_half_are_random_where_chunks_have_many_sentences(numbered):
    split = numbered([[5] * 60_000 for _ in range(4)])
    labels = uncut(next_sentence(split)).labels
    assert len(labels) >= 10_000
    assert abs(labels.mean() - 0.5) < 3 * 0.5 / np.sqrt(len(labels))


def test_more_than_half_are_random_where_chunks_can_have_one(mixed, numbered):
    labels = uncut(next_sentence(mixed)).labels
    assert labels.mean() > 0.5 + 3 * 0.5 / np.sqrt(len(labels))
    single = uncut(next_sentence(numbered([[9]] * 500))).labels
    assert (single == 1).all()


def test_a_tenth_of_documents_has_a_short_target_and_all_its_chunks_share_it(numbered):
    split = numbered([[3] * 60] * 30_000)
    loop = next_sentence(split)
    assert targets_are_right(loop.targets, len(loop.targets))
    # The target is that of the document: chunks that end before it are as long as it says.
    pairs = uncut(SentenceOrderLoop(loop.outline, ROOM, 0.1, RandomStream(0, "pairs"), 0))
    document = loop.outline.document_of(pairs.chunks)
    ends = loop.chunk_ends(pairs.chunks)
    inner = ends < loop.outline.documents[document + 1]
    lengths = loop.outline.sentences[ends] - loop.outline.sentences[pairs.chunks]
    assert (lengths[inner] == -(-loop.targets[document] // 3)[inner] * 3).all()
    # Drawn per chunk, the usual mistake, the chunks of a document would differ.
    assert alike(lengths[inner], document[inner])
    assert not alike(np.random.default_rng(0).permutation(lengths[inner]), document[inner])


def alike(lengths, document):
    """Whether the chunks of each document, which stand together, are equally long."""
    return (np.diff(lengths)[np.diff(document) == 0] == 0).all()


def targets_are_right(targets, count):
    share = 0.1 * (ROOM - 2) / (ROOM - 1)  # the full length can be drawn, too
    short = targets < ROOM
    drawn = np.bincount(targets[short], minlength=ROOM)[2:]
    near = abs(short.mean() - share) < 3 * np.sqrt(share * (1 - share) / count)
    return near and chisquare(drawn).pvalue > 1e-3 and targets.min() == 2


def test_a_random_text_begins_at_any_sentence_of_any_other_document(numbered):
    split = numbered([[4] * 5] * 12)
    begins = np.concatenate(
        [
            loop.begins[loop.labels == 1]
            for loop in (uncut(next_sentence(split, copy=copy)) for copy in range(400))
        ]
    )
    own, sentence = begins[:, 0] // 20, begins[:, 1] // 4
    assert (own != sentence // 5).all()
    assert chisquare(np.bincount(sentence, minlength=60)).pvalue > 1e-3


def test_front_and_back_are_cut_equally_often(mixed, bert):
    loop = next_sentence(mixed)
    arrays, pairs = loop.build(), uncut(loop)
    front = [], []
    back = [], []
    for side, name in enumerate(("first", "second")):
        begins = arrays[name].astype(np.int64)
        front[side].append(begins - pairs.begins[:, side])
        back[side].append(pairs.ends[:, side] - begins - arrays[f"{name}_size"])
        assert min(front[side][0].min(), back[side][0].min()) >= 0
        lost = front[side][0].sum(), back[side][0].sum()
        assert sum(lost) > 10_000
        assert chisquare(lost).pvalue > 1e-3
        assert chisquare([0, sum(lost)]).pvalue < 1e-3  # the usual mistake: the tail only


def test_one_document_supplies_its_own_random_texts(numbered, bert, everything, texts):
    split = numbered([[5] * 400])
    arranged = everything(NextSentencePairs(length=32).arrange(split, bert, seed=0))
    assert 0 < arranged.labels.mean() < 1
    for (a, b), label in zip(texts(arranged), arranged.labels, strict=True):
        assert label or a[-1] < b[0]
    whole = everything(NextSentencePairs(length=32).arrange(numbered([[5]]), bert, seed=0))
    assert texts(whole) == [[[*range(5)], [*range(5)]]] and whole.labels.tolist() == [1]


def test_order_is_swapped_half_of_the_time(numbered):
    split = numbered([[5] * 2000 for _ in range(80)])
    loop = next_sentence(split, kind=SentenceOrderLoop)
    pairs = uncut(loop)
    several = loop.chunk_ends(pairs.chunks) - pairs.chunks > 1
    labels = pairs.labels[several]
    assert len(labels) >= 10_000
    assert abs(labels.mean() - 0.5) < 3 * 0.5 / np.sqrt(len(labels))


def test_swapping_back_gives_contiguous_text_and_only_single_sentences_get_random_ones(mixed):
    loop = next_sentence(mixed, kind=SentenceOrderLoop)
    pairs = uncut(loop)
    several = loop.chunk_ends(pairs.chunks) - pairs.chunks > 1
    swapped = several & (pairs.labels == 1)
    ordered = several & (pairs.labels == 0)
    assert (pairs.ends[swapped, 1] == pairs.begins[swapped, 0]).all()
    assert (pairs.ends[ordered, 0] == pairs.begins[ordered, 1]).all()
    alone = ~several
    assert alone.any() and (pairs.labels[alone] == 1).all()
    first, second = (document_of(loop.outline, pairs.begins[:, side]) for side in (0, 1))
    assert (first[several] == second[several]).all()
    assert (first[alone] != second[alone]).all()


def test_pure_order_has_no_random_texts(mixed, bert, everything, texts):
    arranged = everything(SentenceOrderPairs(length=LENGTH, pure=True).arrange(mixed, bert, seed=0))
    usual = everything(SentenceOrderPairs(length=LENGTH).arrange(mixed, bert, seed=0))
    assert 0 < len(arranged) < len(usual)
    assert abs(arranged.labels.mean() - 0.5) < 3 * 0.5 / np.sqrt(len(arranged))
    for (a, b), label in zip(texts(arranged), arranged.labels, strict=True):
        assert (b[-1] < a[0]) == bool(label)


def test_settings_that_cannot_be(numbered, bert):
    split = numbered([[5, 5]])

    def complaint(error, spec, **settings):
        with pytest.raises(error) as caught:
            spec(**settings).arrange(split, bert, seed=0)
        return str(caught.value)

    for spec in (NextSentencePairs, SentenceOrderPairs):
        assert complaint(SettingError, spec, length=4) == (
            "length is 4; 3 special tokens and one token of each text need 5; raise length."
        )
        assert complaint(SettingError, spec, length=9, short=1.5) == (
            "short is 1.5; it must be at least 0 and at most 1."
        )
        assert complaint(SettingError, spec, length=9, copies=0) == (
            "copies is 0; it must be at least 1."
        )
        spec(length=5).arrange(split, bert, seed=0)
    split = numbered([[5], [7]])
    assert complaint(InputError, SentenceOrderPairs, length=64, pure=True) == (
        "the train part gives no examples; no two sentences of a document fit together; raise "
        "length, or set pure to false."
    )


def test_the_documents_of_texts_are_known(mixed, bert, everything):
    examples = SentenceOrderPairs(length=LENGTH).arrange(mixed, bert, seed=0)
    arranged = everything(examples)
    found = examples.documents(0, np.arange(len(arranged)))
    assert found.shape == (len(arranged), 2)
    one = found[:, 0] == found[:, 1]
    assert one[arranged.labels == 0].all()
    wrong = arranged.labels == 1
    assert (one & wrong).any() and (~one & wrong).any(), "swapped ones, and random ones"
    bounds = mixed.sentence_offsets[mixed.document_offsets]
    begins = np.stack([examples._index.copy(0)[name] for name in ("first", "second")], axis=1)
    assert (bounds[found] <= begins).all() and (begins < bounds[found + 1]).all()
