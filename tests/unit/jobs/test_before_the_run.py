"""What guessing costs, and what is said and refused before the first step."""

import math
import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from clozeworks.data.corpus.corpus import TRAIN, Corpus
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.gradients import StepLoss, StepResult
from clozeworks.errors import OutputError, SettingError
from clozeworks.jobs import disk
from clozeworks.jobs.pretrain import checks
from clozeworks.jobs.pretrain.baseline import Baseline, unigram_baseline
from clozeworks.jobs.pretrain.checks import first_loss
from clozeworks.objectives.batch import Batch
from clozeworks.wording import size_in_words

ALONE = ProcessGroup("cpu")


@pytest.fixture(scope="module")
def corpus(small_corpus):
    return Corpus.open(small_corpus)


def batch(parts, tokens=100):
    ids = np.zeros(tokens, np.int64)
    return Batch(ids, ids, np.array([tokens]), parts)


def asked(**answers):
    return {name: {"answers": np.array(values)} for name, values in answers.items()}


def test_guessing_costs_what_a_direct_count_says(corpus):
    counts = Counter()
    for shard in corpus.split(TRAIN).shards:
        counts.update(shard.read("tokens").tolist())
    total, size = sum(counts.values()), corpus.tokenizer.size
    common = counts.most_common(1)[0][0]
    never = next(number for number in range(size) if number not in counts)
    answers = [[common, 7, 8], [common, never]]
    found = unigram_baseline(corpus, [batch(asked(masked_lm=values)) for values in answers], ALONE)
    costs = [-math.log((counts[n] + 1) / (total + size)) for values in answers for n in values]
    assert found.loss == pytest.approx(sum(costs) / 5)
    assert found.accuracy == 2 / 5
    assert found.uniform == pytest.approx(math.log(size))


def test_what_no_text_has_gets_its_share_of_the_questions(corpus):
    counts = Counter()
    for shard in corpus.split(TRAIN).shards:
        counts.update(shard.read("tokens").tolist())
    total, size = sum(counts.values()), corpus.tokenizer.size
    common, end = counts.most_common(1)[0][0], corpus.tokenizer.last_id
    assert not counts[end]
    answers = [common, 7, 8, end]
    found = unigram_baseline(corpus, [batch(asked(causal_lm=answers))], ALONE)
    shares = [0.75 * (counts[token] + 1) / (total + size) for token in answers[:3]] + [0.25]
    assert found.loss == pytest.approx(-sum(map(math.log, shares)) / 4)
    assert found.part == "causal_lm" and found.accuracy == 1 / 4
    # As if it were a token of text, the end would be all but impossible.
    plain = unigram_baseline(corpus, [batch(asked(masked_lm=answers))], ALONE)
    assert plain.loss > found.loss


def test_more_spans_than_sentinels_are_told():
    part = {"span_corruption": {"answers": np.arange(9), "merged": np.array([0, 3, 0, 1])}}
    assert checks.target_messages([batch(part)], 1) == [
        "span_corruption: 9 questions a step.",
        "span_corruption: 2 examples have more spans than there are sentinels, of 4; what is left "
        "over is one with the last span; shorten the examples, or hide longer spans.",
    ]
    part["span_corruption"]["merged"] = np.zeros(4, int)
    assert checks.target_messages([batch(part)], 1) == ["span_corruption: 9 questions a step."]


def test_without_hidden_tokens_there_is_no_baseline(corpus):
    assert unigram_baseline(corpus, [], ALONE) is None
    assert unigram_baseline(corpus, [batch(asked(next_sentence=[0, 1]))], ALONE) is None
    assert unigram_baseline(corpus, [batch(asked(masked_lm=[]))], ALONE) is None


def test_the_share_of_hidden_tokens_is_said():
    part = {"masked_lm": {"answers": np.arange(15), "positions": np.arange(15)}}
    more = {"masked_lm": {"answers": np.arange(30), "positions": np.arange(30)}}
    said = checks.target_messages([batch(part), batch(more)], 2)
    assert said == ["masked_lm: 22.5% of the tokens are asked."]


@pytest.mark.parametrize("name", ["next_sentence", "sentence_order"])
def test_pairs_that_are_not_half_and_half(name):
    def said(ones, zeros):
        return checks.target_messages([batch(asked(**{name: [1] * ones + [0] * zeros}))], 1)

    assert said(52, 48) == [f"{name}: 52% of 100 pairs are negatives."]
    assert said(70, 30) == [
        f"{name}: 70% of 100 pairs are negatives; half are meant to be; short documents may leave "
        "no second sentence to follow."
    ]
    assert said(7, 3) == [f"{name}: 70% of 10 pairs are negatives."], "ten may well be seven"


def test_other_questions_are_counted_by_the_step():
    pieces = [batch(asked(contrastive=values)) for values in ([0, 1], [0], [0, 1], [0])]
    assert checks.target_messages(pieces, 1) == ["contrastive: 6 questions a step."]
    assert checks.target_messages(pieces, 2) == ["contrastive: 3 questions a step."], (
        "of two pieces each"
    )
    assert checks.target_messages(pieces, 4) == ["contrastive: about 2 questions a step."]
    assert checks.target_messages(pieces[1:2], 1) == ["contrastive: 1 question a step."]
    assert checks.target_messages(pieces, 2, 2) == ["contrastive: about 6 questions a step."], (
        "of two ranks"
    )


def test_what_a_run_says_of_a_step_is_what_the_step_asks(tiny_recipe, listener):
    from clozeworks.jobs.pretrain.job import pretrain

    changes = ["objective=spanbert", "training.steps=1", "training.batch_tokens=256"]
    done = pretrain(tiny_recipe, *changes, callback=listener)
    [said] = [note for note in listener.notes if note.startswith("span_boundary: ")]
    count = int(said.removeprefix("span_boundary: ").removeprefix("about ").split()[0])
    assert 0.5 * 0.15 * 256 < count < 2 * 0.15 * 256
    assert any("; 1 step of 256 tokens, " in note for note in listener.notes)
    assert done.summary()[0].startswith("1 step, ")


class Notebook:
    def __init__(self):
        self.notes = []

    def on_message(self, sentence):
        self.notes.append(sentence)


def test_room_for_snapshots(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: usage._replace(free=5_000_000))
    sentence = disk.check_disk(tmp_path, snapshot=1_200_000, keep=2, model=400_000)
    assert sentence == "Snapshots and model need 4.0 MB of disk, 5.0 MB are free."
    with pytest.raises(OutputError) as caught:
        disk.check_disk(tmp_path, snapshot=2_400_000, keep=2, model=800_000)
    assert str(caught.value) == (
        f"{tmp_path} has 5.0 MB free; 3 snapshots and the model need 8.0 MB; make room, keep fewer "
        "(checkpointing.keep), or choose another disk."
    )


def test_memory_that_will_not_do(monkeypatch):
    notes = Notebook()
    monkeypatch.setattr(checks, "available", lambda: 1_000_000)
    checks._check_memory(100_000, None, 2, notes)
    assert notes.notes == [
        "Weights, gradients and optimizer need 2.0 MB of memory, 1.0 MB are available.",
        "This will not fit: use a smaller model, or a machine with more memory.",
    ]
    assert size_in_words(999) == "999 bytes" and size_in_words(3.2e12) == "3.2 TB"


class TestFirstLoss:
    @staticmethod
    def said(loss: float, *, fresh: bool) -> list[str]:
        notes: list[str] = []

        class Watcher(Callback):
            def on_message(self, sentence: str) -> None:
                notes.append(sentence)

        measured = StepResult({"masked_lm": StepLoss(loss, 0.0, 1.0, 1.0)}, 10)
        first_loss(
            measured,
            Baseline(6.0, 0.05, 8.3),
            SimpleNamespace(on_message=notes.append),
            fresh=fresh,
        )
        return notes

    def test_what_guessing_costs_is_said(self):
        assert self.said(8.4, fresh=True) == [
            "Guessing every token alike costs 8.300, guessing by frequency 6.000."
        ]

    def test_first_weights_that_are_too_large_are_named(self):
        assert "initializer_range" in self.said(20.0, fresh=True)[-1]

    def test_a_trained_model_should_begin_below_guessing(self):
        assert len(self.said(5.0, fresh=False)) == 1
        assert "above guessing by frequency" in self.said(6.5, fresh=False)[-1]


def test_rotary_positions_are_not_trained_behind_those_that_a_config_states():
    from clozeworks.families.family import published_sizes
    from clozeworks.jobs.pretrain.checks import check_lengths
    from clozeworks.objectives.causal_lm import CausalLM

    family = published_sizes()["llama-7b"]
    config = family.published("llama-7b")
    blueprint = family.blueprint(config, frozenset({"vocabulary"}))
    check_lengths(blueprint, CausalLM(), 2_048, config)
    with pytest.raises(SettingError, match=r"examples is 4,096; the model takes at most 2,048;"):
        check_lengths(blueprint, CausalLM(), 4_096, config)


@pytest.mark.parametrize(
    ("size", "places", "advice"),
    [
        ("gpt2", "n_positions", "raise model.config.n_positions."),
        ("bert-tiny", "max_position_embeddings", "raise model.config.max_position_embeddings."),
        ("gpt2", None, "start from a size, as a trained model keeps its positions."),
    ],
)
def test_what_to_do_about_long_examples_depends_on_the_model(size, places, advice):
    from clozeworks.families.family import published_sizes
    from clozeworks.jobs.pretrain.checks import check_lengths
    from clozeworks.objectives.causal_lm import CausalLM
    from clozeworks.objectives.masked_lm import MaskedLM

    family = published_sizes()[size]
    blueprint = family.blueprint(family.published(size), frozenset({"vocabulary"}))
    objective = CausalLM() if size == "gpt2" else MaskedLM()
    with pytest.raises(SettingError) as caught:
        check_lengths(blueprint, objective, 9_000, max_positions=places)
    assert str(caught.value) == (
        "the length of examples is 9,000; the model takes at most "
        f"{blueprint.max_length():,}; shorten them (`data.stages`), or {advice}"
    )
    assert places in (None, family.max_positions_key)
