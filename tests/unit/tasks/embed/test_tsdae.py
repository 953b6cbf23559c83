"""TSDAE: which words are deleted, what is asked, and that texts do not touch each other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import clozeworks as cw
from clozeworks.core.heads.tied_decoder import TiedDecoder
from clozeworks.core.layout import Layout
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.families.family import published_sizes
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, Vocabularies
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.teacher_forcing import LENGTHS, READ
from clozeworks.rng import RandomStream
from clozeworks.tasks.embed.losses import HEAD
from clozeworks.tasks.embed.losses.tsdae import TSDAE
from clozeworks.tasks.embed.task import Embed
from clozeworks.text.training.train import train_from_iterator

TEXT = "the quick brown fox jumps over a lazy dog near some old stone houses by the river"
WORDS = TEXT.split()
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}


def examples(words, *, pieces=1, count=1, first=0):
    """Texts of so many words, each of some tokens, between two special tokens."""
    length = words * pieces + 2
    special = np.zeros(length, np.bool_)
    special[[0, -1]] = True
    starts = np.zeros(length, np.bool_)
    starts[1:-1:pieces] = True
    return ExampleArrays(
        ids=np.tile(np.arange(length), count),
        types=np.zeros(length * count, np.int64),
        special=np.tile(special, count),
        word_starts=np.tile(starts, count),
        lengths=np.full(count, length),
        epochs=np.zeros(count, np.int64),
        indices=first + np.arange(count),
        labels=np.zeros((count, 4)),
    )


def stays(clean, deletion=0.6):
    draws = Draws.of(clean, RandomStream(0, "test"))
    return TSDAE(deletion=deletion).what_stays(clean, draws)


def test_six_words_in_ten_are_deleted_each_on_its_own():
    clean = examples(10, count=4_000)
    left = stays(clean).reshape(4_000, 12)[:, 1:-1].sum(axis=1)
    expected = stats.binom.pmf(np.arange(11), 10, 0.4)
    expected[1] += expected[0]  # of texts that would lose every word one stays
    expected[0] = 0.0

    def p_value(counts):
        seen = np.bincount(counts, minlength=11)[1:9]
        wanted = expected[1:9] / expected[1:9].sum() * seen.sum()
        return stats.chisquare(seen, wanted).pvalue

    assert left.min() >= 1
    assert p_value(left) > 1e-4
    # The usual mistake: a fixed number of words is deleted, or the chance is that of staying.
    assert p_value(np.full(4_000, 4)) < 1e-4
    kept_instead = stays(clean, 0.4).reshape(4_000, 12)[:, 1:-1].sum(axis=1)
    assert p_value(kept_instead) < 1e-4


def test_the_word_that_stays_is_any_of_them():
    left = stays(examples(4, count=4_000), 0.999).reshape(4_000, 6)[:, 1:-1]
    assert stats.chisquare(left[left.sum(axis=1) == 1].sum(axis=0)).pvalue > 1e-4


def test_words_go_as_a_whole_and_special_tokens_stay():
    left = stays(examples(6, pieces=3, count=50)).reshape(50, 20)
    words = left[:, 1:-1].reshape(50, 6, 3)
    assert left[:, [0, -1]].all()
    assert (words.all(axis=2) | ~words.any(axis=2)).all()


def test_what_is_deleted_depends_on_the_text_and_its_epoch_alone():
    many = stays(examples(9, count=20)).reshape(20, 11)
    assert np.array_equal(stays(examples(9, count=1, first=7)), many[7])
    later = examples(9, count=20)
    later = replace(later, epochs=later.epochs + 1)
    assert not np.array_equal(stays(later).reshape(20, 11), many)


def test_all_of_the_text_is_asked_for_each_token_from_those_before():
    clean = examples(5, count=2)
    builder = BatchBuilder.of(clean)
    targets = TSDAE().damage(builder, RandomStream(0, "test"))
    assert targets[READ].tolist() == [*range(6), *range(6)]
    assert targets[ANSWERS].tolist() == [*range(1, 7), *range(1, 7)]
    assert targets[LENGTHS].tolist() == [6, 6]
    assert len(builder.ids) == builder.lengths.sum() < len(clean.ids)
    assert len(builder.types) == len(builder.ids)


@pytest.fixture(scope="module")
def model():
    tokenizer = train_from_iterator([TEXT] * 3, kind="wordpiece", size=120)
    return cw.new("bert-tiny", tokenizer, **SMALL)


def batch_of(model, task, numbers):
    texts = [" ".join(WORDS[n : n + 4 + n]) for n in range(6)]
    items = [task.item_type.from_texts((text,)) for text in texts]
    source = TaskExamples(task, items, model.tokenizer, max_length=64)
    clean = source.take(0, np.array(numbers))
    return task.batch(clean, 0, Vocabularies.of(model.tokenizer)).tensors()


def test_a_text_costs_the_same_beside_others_and_alone(model):
    task = Embed(loss=TSDAE(), pooling=("first",))
    network = model.for_task(task).checkpoint.model.eval().double()
    together = task.batch_loss(network, batch_of(model, task, range(6))).terms["embed"]
    alone = [task.batch_loss(network, batch_of(model, task, [n])).terms["embed"] for n in range(6)]
    assert together.count == sum(each.count for each in alone)
    assert together.total.item() == pytest.approx(sum(each.total.item() for each in alone))


def test_the_past_does_not_see_the_future_but_through_the_vector(model):
    task = Embed(loss=TSDAE(), pooling=("first",))
    network = model.for_task(task).checkpoint.model.eval()
    tensors = batch_of(model, task, [3])
    targets = tensors.targets["embed"]
    decoder = network.heads[HEAD]
    layout, vector = Layout(targets[LENGTHS].tolist()), torch.randn(1, 32)
    plain = decoder(network, targets[READ], layout, vector)
    changed = targets[READ].clone()
    changed[4] = 7 if changed[4] != 7 else 8
    other = decoder(network, changed, layout, vector)
    assert torch.allclose(plain[:4], other[:4], atol=1e-6)
    assert not torch.allclose(plain[4:], other[4:], atol=1e-3)
    assert not torch.allclose(plain, decoder(network, targets[READ], layout, -vector), atol=1e-3)


def test_the_folder_has_no_decoder_and_the_first_token_speaks(model, tmp_path):
    start = model.save(tmp_path / "start")
    rows = [{"text": " ".join(WORDS[n : n + 5])} for n in range(12)]
    result = cw.finetune(
        start, rows, task={"kind": "embed", "loss": {"kind": "tsdae"}}, dev=rows,
        out=tmp_path / "run", epochs=2, quiet=True,
    )  # fmt: skip
    taught = result.load()
    assert taught.checkpoint.pooling.modes == ("first",)
    assert not taught.blueprint.heads
    before, after = model.embed(["the fox"]), taught.embed(["the fox"])
    assert not np.allclose(before, after)


def test_vectors_of_another_width_are_refused(model):
    with pytest.raises(SettingError, match="vectors of the model's width, 32, and these have 64"):
        model.for_task(Embed(loss=TSDAE(), pooling=("first", "mean")))


SIZES = sorted({family.model_type: size for size, family in published_sizes().items()}.items())


@pytest.mark.parametrize(("family", "size"), SIZES)
def test_every_family_has_such_a_decoder(family, size):
    """Layers of every shape take a cross-attention after their attention."""
    published = published_sizes()[size]
    blueprint = published.blueprint(published.published(size), frozenset())
    decoder = TiedDecoder.of(blueprint.encoder)
    assert len(decoder.cross) == len(blueprint.encoder.layers)
