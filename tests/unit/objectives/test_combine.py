"""Sums and weights, pairs of texts, and the arithmetic of losses and batches."""

import dataclasses

import numpy as np
import pytest
import torch

from clozeworks import config
from clozeworks.core.heads.pooled import PooledClasses
from clozeworks.core.loss import Loss, LossTerm
from clozeworks.data.examples.pairs import NextSentencePairs, SentenceOrderPairs
from clozeworks.errors import SettingError, UnknownName
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.combine import Sum, Weighted
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.next_sentence import NextSentence
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.sentence_order import SentenceOrder
from clozeworks.objectives.span_boundary import SpanBoundary

BERT = Sum(parts=(MaskedLM(), NextSentence()))


def complaint(make):
    with pytest.raises(SettingError) as caught:
        make()
    return str(caught.value)


@pytest.fixture
def pairs(examples):
    return examples([(9, 12), (20, 3), (5, 5), (30, 30)], labels=[0, 1, 1, 0])


def test_a_mask_is_the_same_with_a_second_part_beside_it(pairs, source):
    alone, both = MaskedLM().batch(pairs, 4, source), BERT.batch(pairs, 4, source)
    assert (alone.ids == both.ids).all()
    assert both.counts() == {"masked_lm": alone.counts()["masked_lm"], "next_sentence": 4}
    assert both.targets["next_sentence"]["answers"].tolist() == [0, 1, 1, 0]
    assert both.types.tolist() == pairs.types.tolist()


def test_one_forward_pass_serves_all_parts(pairs, source, model):
    built = model(BERT)
    passes = []
    built.encoder.register_forward_hook(lambda *_: passes.append(1))
    loss = BERT.loss(built, BERT.batch(pairs, 0, source).tensors())
    assert len(passes) == 1
    assert loss.value().item() == pytest.approx(sum(loss.means().values()), abs=1e-12)


def test_weights_multiply(pairs, source, model):
    heavy = Sum(parts=(MaskedLM(), Weighted(objective=NextSentence(), weight=0.25)))
    nested = Weighted(objective=Weighted(objective=BERT, weight=0.5), weight=4.0)
    built, tensors = model(BERT), BERT.batch(pairs, 0, source).tensors()
    means = BERT.loss(built, tensors).means()
    mlm, nsp = means["masked_lm"], means["next_sentence"]
    assert heavy.loss(built, tensors).value().item() == pytest.approx(mlm + 0.25 * nsp, abs=1e-12)
    assert nested.loss(built, tensors).value().item() == pytest.approx(2 * (mlm + nsp), abs=1e-12)
    assert nested.loss_names == BERT.loss_names and nested.examples == BERT.examples
    assert heavy.loss(built, tensors).means() == means  # reports are not weighted


def test_sentence_order_uses_its_own_head_if_there_is_one(pairs, source, model):
    objective = SentenceOrder(examples=None)
    tensors = objective.batch(pairs, 0, source).tensors()
    borrowed = model(objective)
    assert torch.isfinite(objective.loss(borrowed, tensors).value())
    heads = {**borrowed.blueprint.heads, "sentence_order": PooledClasses(count=2)}
    own = dataclasses.replace(borrowed.blueprint, heads=heads).build().double()
    for parameter in own.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    objective.loss(own, tensors).value().backward()
    assert own.heads["sentence_order"].project.weight.grad is not None
    assert own.heads["next_sentence"].project.weight.grad is None


def test_pairs_are_read_from_the_pooler(pairs, source, model):
    objective = NextSentence()
    built, tensors = model(objective), objective.batch(pairs, 0, source).tensors()
    hidden = built(tensors.ids, tensors.layout, tensors.types).detach().requires_grad_()
    objective.losses(built, hidden, tensors)["next_sentence"].total.backward()
    reached = hidden.grad.abs().sum(1).nonzero().squeeze(1)
    assert reached.tolist() == tensors.layout.first(hidden.device).tolist()
    assert built.pooler.dense.weight.grad.any()


def test_what_pairs_need(examples, source, model):
    assert complaint(lambda: NextSentence().batch(examples([5]), 0, source)) == (
        "examples of next_sentence is of a kind without labels; it must pair texts; use one "
        "of: next_sentence_pairs, sentence_order_pairs."
    )
    for objective in (NextSentence(), SentenceOrder()):
        assert complaint(lambda o=objective: model(o, heads=("vocabulary",))) == (
            f"heads is ['vocabulary']; {objective.name} needs 'next_sentence'; make the model "
            "with --heads pooler,next_sentence and what else it needs."
        )


def test_examples_must_agree():
    assert BERT.examples == NextSentencePairs(length=128)
    longer = NextSentencePairs(length=512)
    both = Sum(parts=(MaskedLM(examples=longer), NextSentence(examples=longer)))
    assert both.chosen_examples() == longer
    assert complaint(lambda: Sum(parts=(MaskedLM(), NextSentence(), SentenceOrder()))) == (
        "examples is {kind = 'sentence_order_pairs', length = 512, short = 0.1, copies = 10, "
        "pure = False}; the parts of a sum share their examples, and sentence_order needs these, "
        "next_sentence {kind = 'next_sentence_pairs', length = 128, short = 0.1, copies = 10}; "
        "give both the same examples, or one of them none."
    )
    assert SentenceOrder().examples == SentenceOrderPairs(length=512)
    # What is inside has the setting, and is named as it is written.
    for objective, where in (
        (Weighted(objective=MaskedLM(), weight=2.0), "objective.objective"),
        (Sum(parts=(MaskedLM(),)), "objective.parts[0]"),
        (Sum(parts=(Weighted(objective=MaskedLM(), weight=2.0),)), "objective.parts[0].objective"),
    ):
        said = complaint(objective.chosen_examples)
        assert said.startswith(f"{where}.examples of masked_lm is None; it must say ")


def test_what_sums_refuse():
    assert complaint(lambda: Sum(parts=())) == (
        "parts is empty; a sum needs at least one objective; add one."
    )
    assert complaint(lambda: Sum(parts=(MaskedLM(), MaskedLM.roberta()))) == (
        "parts is ['masked_lm', 'masked_lm']; each objective may stand once in a sum, and "
        "'masked_lm' stands twice; remove one of them."
    )
    for weight in (0.0, -1.0):
        assert complaint(lambda w=weight: Weighted(objective=MaskedLM(), weight=w)) == (
            f"weight is {weight}; it must be above 0; leave the objective out instead."
        )


def test_span_boundary_needs_spans_before_it():
    good = Sum(parts=(Weighted(objective=MaskedLM.spanbert(), weight=2.0), SpanBoundary()))
    assert good.loss_names == ("masked_lm", "span_boundary")
    for parts in (
        (SpanBoundary(), MaskedLM.spanbert()),
        (MaskedLM(), SpanBoundary()),
        (NextSentence(), Weighted(objective=SpanBoundary(), weight=0.5)),
    ):
        names = [name for part in parts for name in part.loss_names]
        assert complaint(lambda p=parts: Sum(parts=p)) == (
            f"parts is {names}; span_boundary predicts masked spans; put masked_lm with hide = "
            "spans before it."
        )


def test_recipes_are_read_strictly():
    recipe = {
        "kind": "sum",
        "parts": [
            {"kind": "masked_lm", "hide": {"kind": "spans", "budget": {"kind": "ceiling"}}},
            {"kind": "weighted", "weight": 0.5, "objective": {"kind": "span_boundary"}},
        ],
    }
    read = config.read(Objective, recipe, "objective")
    assert read.loss_names == ("masked_lm", "span_boundary")
    assert config.read(Objective, config.plain(read)) == read
    recipe["parts"][0]["hide"]["budget"]["kind"] = "bernoulli"  # no number to keep within
    with pytest.raises(UnknownName) as caught:
        config.read(Objective, recipe, "objective")
    assert str(caught.value) == (
        "objective.parts[0].hide.budget.kind is 'bernoulli'; known: ceiling, exact, "
        "random_rounding."
    )
    with pytest.raises(UnknownName, match="Did you mean 'masked_lm'"):
        config.read(Objective, {"kind": "masked_ml"}, "objective")


def test_a_loss_is_a_sum_and_a_count():
    ten, four = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (10.0, 4.0))
    loss = Loss(
        {"a": LossTerm(ten, 5, torch.tensor(2)), "b": LossTerm(four, 2, torch.tensor(2), 3.0)}
    )
    assert Loss({**loss.terms, "b": LossTerm(four, 2)}).accuracies() == {"a": 0.4}
    assert loss.value().item() == 2 + 3 * 2
    assert loss.value({"a": 20, "b": 8.0}).item() == 0.5 + 1.5
    assert loss.means() == {"a": 2.0, "b": 2.0} and loss.accuracies() == {"a": 0.4, "b": 1.0}
    loss.value({"a": 20, "b": 8}).backward()
    assert (ten.grad.item(), four.grad.item()) == (1 / 20, 3 / 8)


def test_no_questions_cost_exactly_nothing():
    scores = torch.zeros(0, 7, requires_grad=True)
    cost = LossTerm.of(scores, torch.zeros(0, dtype=torch.long))
    for counts in (None, {"a": 0}, {"a": 12}):
        value = Loss({"a": cost}).value(counts)
        assert value.item() == 0
    value.backward()
    assert scores.grad is not None
    assert Loss({"a": cost}).means() == Loss({"a": cost}).accuracies() == {}


def test_half_precision_is_summed_in_full():
    scores = torch.randn(5000, 10, generator=torch.Generator().manual_seed(0))
    answers = torch.zeros(5000, dtype=torch.long)
    exact = LossTerm.of(scores.to(torch.bfloat16).double(), answers).total
    assert abs(LossTerm.of(scores.to(torch.bfloat16), answers).total - exact) / exact < 1e-5


def test_tensors_are_whole_numbers_with_a_layout(pairs, source):
    batch = BERT.batch(pairs, 0, source)
    tensors = batch.tensors(torch.device("cpu"))
    everything = [tensors.ids, tensors.types, *tensors.targets["masked_lm"].values()]
    assert all(tensor.dtype == torch.int64 for tensor in everything)
    assert tensors.layout.lengths == tuple(pairs.lengths.tolist())
    assert tensors.ids.numpy().tolist() == batch.ids.tolist()
    assert batch.tensors("meta").ids.device.type == "meta"
    assert len(batch) == 4


def test_a_source_knows_the_special_ids(tiny_models):
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(tiny_models["bert"])
    source = Vocabularies.of(tokenizer)
    assert source.mask() == tokenizer.mask_id and source.vocabulary == tokenizer.size
    assert set(source.special_ids) == {
        tokenizer.id_of(name) for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    }
    assert len(source.ordinary) == tokenizer.size - 5
    assert not np.isin(source.special_ids, source.ordinary).any()
