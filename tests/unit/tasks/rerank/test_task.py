"""Reranking: which loss, which rows, which measure; and gradients over lists that are exact."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.engine.cached_gradients import CachedGradients
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.stages import MicroBatcher
from clozeworks.errors import CheckpointError, InputError, SettingError
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import Vocabularies
from clozeworks.runtime.workers import WorkerPool
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.items import RerankItem
from clozeworks.tasks.rerank.losses.binary_cross_entropy import BinaryCrossEntropy
from clozeworks.tasks.rerank.losses.lambda_loss import LambdaLoss
from clozeworks.tasks.rerank.losses.list_net import ListNet
from clozeworks.tasks.rerank.losses.logit_margin_mse import LogitMarginMSE
from clozeworks.tasks.rerank.task import Rerank, Reranked, ranked
from clozeworks.tasks.spans.windows import Windows
from clozeworks.text.training.train import train_from_iterator

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "old",
    "dogs",
    "lay",
    "in",
    "gardens",
    "by",
    "that",
    "river",
]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "seed": 3}


def text(number, words):
    return " ".join(WORDS[(number * 7 + place * 3) % len(WORDS)] for place in range(words))


def lists(count=6):
    return [
        RerankItem(
            text(n, 2),
            tuple(text(n + 20 * place, 2 + (n + place) % 5) for place in range(2 + n % 3)),
            tuple(float((n + place) % 2) for place in range(2 + n % 3)),
            kind="lists",
        )
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def model():
    tokenizer = train_from_iterator([text(n, 9) for n in range(60)], kind="wordpiece", size=120)
    dropout = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
    return cw.new("bert-tiny", tokenizer, max_position_embeddings=24, **SIZES, **dropout)


def gradients_of(network):
    return {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("budget", "count"), [(10, 1), (40, 2), (10_000, 1)])
@pytest.mark.parametrize("loss", [LambdaLoss(), ListNet(), LogitMarginMSE()])
def test_lists_cost_the_same_however_a_step_is_cut(model, loss, budget, count):
    task = Rerank(loss=loss)
    network = model.for_task(task, seed=1).model.train()
    clean = TaskExamples(task, lists(), model.tokenizer, max_length=24).take(0, np.arange(6))
    micro_batches = MicroBatcher(task, 5, Vocabularies.of(model.tokenizer), budget, count)(clean)
    with WorkerPool("cpu", count) as workers:
        taken = CachedGradients(network, network, task, ProcessGroup("cpu"), workers, seed=5)
        result = taken.take(7, micro_batches)
    cached = gradients_of(network)
    logits, known = [], []
    for number, micro_batch in enumerate(micro_batches):
        with taken.drawing(7, number):
            logits.append(task.outputs(network, micro_batch.tensors("cpu", 7)))
        known.append(task.known(micro_batch.tensors("cpu")))
    together = {key: torch.cat([each[key] for each in known]) for key in known[0]}
    whole = task.loss_of_vectors(network, torch.cat(logits), together)
    network.zero_grad()
    whole.value().backward()
    right = gradients_of(network)
    assert task.loss_over_step and (len(micro_batches) > 1 or budget == 10_000)
    assert max(float((cached[n] - right[n]).abs().max()) for n in right) < 1e-5
    assert max(float(each.abs().max()) for each in right.values()) > 1e-3
    assert result.loss == pytest.approx(whole.value().item(), abs=1e-5)


def test_pairs_cost_by_themselves(model):
    """So a part of a step is computed alone, and once."""
    task = Rerank(loss=BinaryCrossEntropy(pos_weight=2.0))
    assert not task.loss_over_step
    network = model.for_task(task, seed=1).model.eval()
    clean = TaskExamples(task, lists(), model.tokenizer, max_length=24).take(0, np.arange(6))
    source = Vocabularies.of(model.tokenizer)
    whole, parts = (MicroBatcher(task, 5, source, budget, 1)(clean) for budget in (10_000, 20))
    [big] = [task.batch_loss(network, each.tensors("cpu")).terms["rerank"] for each in whole]
    terms = [task.batch_loss(network, each.tensors("cpu")).terms["rerank"] for each in parts]
    assert len(terms) > 1 and sum(term.count for term in terms) == big.count == 18
    assert sum(term.total.item() for term in terms) == pytest.approx(big.total.item(), abs=1e-5)


def prepared(tmp_path, model, rows, dev=None, **settings):
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.reading import Reading
    from clozeworks.tasks.task import TaskData

    read = []
    for number, each in enumerate((rows, dev or rows)):
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(map(json.dumps, each)) + "\n")
        read.append(Rerank.read([path], settings, Reading(), BadRows()))
    return Rerank.prepare({"kind": "rerank", **settings}, TaskData((), *read, model))


def judged(*labels, queries=2):
    return [
        {"query": f"q{n % queries}", "document": f"d{n}", "label": label}
        for n, label in enumerate(labels)
    ]


def test_the_rows_choose_the_loss_and_the_activation(tmp_path, model):
    ready = prepared(tmp_path, model, judged(1, 0, 0, 0, queries=2))
    assert ready.task.loss == BinaryCrossEntropy(pos_weight=3.0)
    assert ready.task.activation == "sigmoid"
    assert ready.messages == (
        "The rows hold queries and documents with 0 or 1: the loss is binary_cross_entropy.",
        "1 query has no relevant document; they are kept, and teach what is not relevant.",
        "A relevant document counts 3 times as much as another.",
    )
    row = {"query": "q", "documents": ["a", "b"], "labels": [1, 0]}
    ready = prepared(tmp_path, model, [row, {**row, "query": "r", "labels": [0, 0]}])
    assert (ready.task.loss, ready.task.activation) == (LambdaLoss(), "identity")
    assert ready.messages[1] == (
        "The documents of a query are compared: 2 queries with 4 documents, 1 of which have "
        "documents of one label alone and teach no order."
    )
    row = {"query": "q", "positive": "a", "negative": "b", "teacher": 3.5}
    ready = prepared(tmp_path, model, [row])
    assert isinstance(ready.task.loss, LogitMarginMSE)
    assert ready.messages[1] == (
        "In 1 of 1 row the teacher's numbers are margins between the positive and each negative, "
        "in the others scores."
    )


def test_rows_of_a_query_become_a_list_if_the_loss_wants_one(tmp_path, model):
    ready = prepared(tmp_path, model, judged(1, 0, 0, 1), loss={"kind": "lambda_loss", "k": 5})
    assert [item.documents for item in ready.train] == [("d0", "d2"), ("d1", "d3")]
    assert [item.known for item in ready.train] == [(1.0, 0.0), (0.0, 1.0)]
    assert len(ready.dev) == 4 and ready.task.loss == LambdaLoss(k=5)


def test_a_length_stands_in_the_folder_for_others_too(tmp_path, model):
    ready = prepared(tmp_path, model, judged(1, 0), windows={"keep": "first", "length": 12})
    assert ready.max_length == 12


@pytest.mark.parametrize(
    ("rows", "settings", "sentence"),
    [
        (
            judged(1, 1),
            {},
            "labels is 1; every label is the same, so there is nothing to tell apart; add "
            "documents that are relevant, or such that are not (clozeworks mine).",
        ),
        (
            judged(0.5, 3),
            {"loss": {"kind": "binary_cross_entropy"}},
            "loss.kind is 'binary_cross_entropy'; the labels reach from 0.5 to 3, and it takes "
            "numbers from 0 to 1; scale them, or use logit_mse or lambda_loss.",
        ),
        (
            judged(0, 1),
            {"loss": {"kind": "logit_mse"}},
            "loss.kind is 'logit_mse'; the rows hold queries and documents with 0 or 1; use "
            "binary_cross_entropy or lambda_loss or list_net.",
        ),
        (
            judged(0, 1),
            {"loss": {"kind": "list_net"}},
            "no query has two documents with different labels, so there is nothing to put in "
            "order; add documents.",
        ),
        (
            judged("yes", "no", "maybe"),
            {},
            "the label is 'yes', a class; a reranker learns 0 and 1, grades or numbers; use "
            "clozeworks finetune compare, whose models rerank, too.",
        ),
        (
            [{"query": "q", "positive": "a"}],
            {},
            "every document is relevant, so there is nothing to tell apart; add negatives "
            "(clozeworks mine finds some).",
        ),
        (
            [{"query": "q", "document": "a"}],
            {},
            "there are no labels; a reranker learns from 0 and 1, from numbers, or from positives "
            "and negatives; name their column with --columns label=NAME.",
        ),
    ],
)
def test_what_cannot_be_learned_is_a_sentence(tmp_path, model, rows, settings, sentence):
    with pytest.raises((InputError, SettingError)) as told:
        prepared(tmp_path, model, rows, **settings)
    assert str(told.value).endswith(sentence)


def test_dev_rows_need_labels(tmp_path, model):
    with pytest.raises(InputError, match=r"1\.jsonl, line 1 has no label; give its document 0, 1"):
        prepared(tmp_path, model, judged(0, 1), dev=[{"query": "q", "document": "a"}])


def test_windows_are_one_for_each_document():
    with pytest.raises(SettingError, match=r"windows\.keep is 'all'; a pair has one logit"):
        Rerank(windows=Windows())


def test_scores_are_what_the_folder_says():
    item, logits = (
        RerankItem("q", ("a", "b", "c")),
        [np.array([x], np.float32) for x in (-900, 0, 2)],
    )
    for activation, wanted in (
        ("sigmoid", (0.0, 0.5, 1 / (1 + math.exp(-2)))),
        ("identity", (-900.0, 0.0, 2.0)),
        ("tanh", (-1.0, 0.0, math.tanh(2))),
    ):
        assert Rerank(activation=activation).decode(item, [], logits).scores == pytest.approx(
            wanted
        )


def test_large_logits_are_not_made_equal():
    found = ranked(["a", "b", "c", "d"], [(1.0, 40.0), (1.0, 50.0), (0.5, 0.0), (0.5, 0.0)])
    assert [(each.index, each.document) for each in found] == [
        (1, "b"),
        (0, "a"),
        (2, "c"),
        (3, "d"),
    ]
    assert found[0].to_dict() == {"index": 1, "score": 1.0, "document": "b"}


def answers(*rows):
    return [Reranked(tuple(row), tuple(row)) for row in rows]


def row(query, document, label, first_stage=()):
    return RerankItem(query, (document,), (label,), first_stage=first_stage, kind="judged")


def test_documents_of_a_query_are_put_in_order_wherever_they_stand():
    items = [row("q", "a", 1.0, (1.0,)), row("r", "x", 0.0, (2.0,)), row("q", "b", 0.0, (3.0,))]
    items += [row("r", "y", 1.0, (1.0,)), row("s", "z", 0.0, (0.0,)), row("s", "w", 0.0, (1.0,))]
    measured = Rerank().measure(items, answers([5], [1], [2], [0], [0], [1]), intervals=True)
    assert measured.primary == "map" and measured.count == 3
    assert measured.values["mrr@10"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert measured.values["first_stage_mrr@10"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert measured.intervals.keys() == measured.values.keys()
    assert "3 queries with 6 documents to put in order." in measured.notes
    assert any("1 query" in note and "relevant" in note for note in measured.notes)
    how, guesses = Rerank().baseline(items, items)
    assert how == "the order of the first stage"
    assert Rerank().measure(items, guesses).value == measured.values["first_stage_map"]
    [wrong] = Rerank().mistakes(items, answers([5], [1], [2], [0], [0], [1]))
    assert [each.text for each in wrong.texts] == ["r", "y", "x"]


def test_a_positive_of_several_rows_counts_once():
    items = [RerankItem("q", ("a", other), (1.0, 0.0), kind="tuples") for other in ("b", "c")]
    measured = Rerank().measure(items, answers([1, 2], [1, 0]))
    assert measured.values["map"] == pytest.approx(0.5)
    assert "1 query with 3 documents to put in order." in measured.notes


def test_single_pairs_are_told_apart_and_numbers_correlate():
    items = [row(f"q{n}", "a", float(n % 2)) for n in range(4)]
    measured = Rerank().measure(items, answers([1], [3], [2], [4]))
    assert (measured.primary, measured.value) == ("average_precision", 1.0)
    how, guesses = Rerank().baseline(items, items)
    assert how == "giving every document the same score"
    assert Rerank().measure(items, guesses).value == pytest.approx(0.5)
    numbers = [replace(item, label=(n / 3,), kind="scores") for n, item in enumerate(items)]
    assert Rerank().measure(numbers, answers([1], [2], [3], [9])).primary == "spearman"
    assert (
        Rerank(metric="pearson").measure(numbers, answers([1], [2], [3], [9])).primary == "pearson"
    )
    with pytest.raises(InputError, match="there are no rows to measure; give at least one"):
        Rerank().measure([], [])


def test_texts_that_do_not_fit_are_cut_and_counted(model):
    task = Rerank()
    item = RerankItem(text(1, 3), (text(2, 30), text(3, 2)))
    long, short = task.windows_of([item], model.tokenizer, 24)
    assert (len(long), short.dropped) == (24, 0) and long.dropped > 0
    assert model.for_task(task).predict([item])[0].truncated


def test_a_folder_with_one_logit_that_says_nothing_reranks_and_compares(model):
    published = Classify(labels=("LABEL_0",), problem="number")
    assert Rerank.reading_head_of(published) == Rerank(activation="sigmoid")
    own = Compare(labels=("similarity",), problem="number")
    assert Rerank.reading_head_of(own) == Rerank(activation="identity")
    assert Rerank.reading_head_of(Compare(labels=("a", "b"))) is None
    assert Rerank().suited_to(Compare).problem == "number"
    trained = model.for_task(Rerank(activation="identity"), seed=1)
    [found] = trained.predict([("the cat", "a mat")])
    assert trained.compare("the cat", "a mat").label == pytest.approx(found.scores[0], abs=1e-6)


@pytest.mark.parametrize("kind", [Compare, Classify])
def test_a_model_with_classes_reranks_by_its_last(model, kind):
    """Published folders do not say whether they classify a text or two."""
    trained = model.for_task(kind(labels=("no", "yes")), seed=4)
    documents = [text(n, 4) for n in range(5)]
    ranking = trained.rerank("the cat", documents, top=3)
    scores = [trained.compare("the cat", each).scores["yes"] for each in documents]
    best = sorted(range(5), key=lambda n: -scores[n])[:3]
    assert [each.index for each in ranking] == best
    assert ranking[0].score == pytest.approx(max(scores), abs=1e-6)
    with pytest.raises(SettingError, match="top is 0; it must be at least 1"):
        trained.rerank("the cat", documents, top=0)


def test_an_unknown_activation_is_named(model, tmp_path):
    folder = model.for_task(Rerank(activation="tanh"), seed=1).save(tmp_path / "model")
    (folder / "clozeworks.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    assert config["sentence_transformers"] == {"activation_fn": "torch.nn.modules.activation.Tanh"}
    assert cw.load(folder).task == Rerank(activation="tanh")
    config["sentence_transformers"]["activation_fn"] = "torch.nn.modules.activation.ELU"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"the activation of the scores is 'torch\..*ELU'"):
        _ = cw.load(folder).task


def test_what_folders_of_others_say(model, tmp_path):
    """Older ones in another key, newer ones beside modules."""
    folder = model.for_task(Rerank(activation="sigmoid"), seed=1).save(tmp_path / "model")
    (folder / "clozeworks.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    del config["sentence_transformers"]
    identity = "torch.nn.modules.linear.Identity"
    old = {**config, "sbert_ce_default_activation_function": identity}
    (folder / "config.json").write_text(json.dumps(old))
    assert cw.load(folder).task == Rerank(activation="identity")
    (folder / "config.json").write_text(json.dumps(config))
    assert isinstance(cw.load(folder).task, Classify)
    said = {"model_type": "CrossEncoder", "activation_fn": identity, "prompts": {}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said))
    kind = "sentence_transformers.base.modules.transformer.Transformer"
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    newer = cw.load(folder)
    assert newer.task == Rerank(activation="identity")
    assert newer.checkpoint.config["sentence_transformers"] == {"activation_fn": identity}
    assert "activation_fn" not in newer.prompts.file


def test_another_task_forgets_the_activation(model):
    other = model.for_task(Rerank(activation="tanh"), seed=1).for_task(Compare(labels=("a", "b")))
    assert "sentence_transformers" not in other.checkpoint.config
