"""A tiny model, batches of a small corpus, and a trainer put together by hand."""

import shutil

import pytest
import torch

from clozeworks.data.corpus.corpus import INDEX_FOLDER, Corpus
from clozeworks.data.examples.loader import Loader
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.checkpointer import Checkpointer
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.evaluation import HeldOutEvaluation
from clozeworks.engine.gradients import Gradients
from clozeworks.engine.metrics import Metrics, MetricsLogger
from clozeworks.engine.schedules.constant import Constant
from clozeworks.engine.settings import Checkpointing, Logging, Training
from clozeworks.engine.snapshots import Snapshots
from clozeworks.engine.stages import MicroBatcher, Stage, Stages
from clozeworks.engine.trainer import Trainer
from clozeworks.jobs.pretrain.recipe import Start
from clozeworks.jobs.pretrain.starting import starting_model, trained_network
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.published import published
from clozeworks.runtime.workers import WorkerPool

CPU = torch.device("cpu")
SIZES = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}


class Notebook(Callback):
    """Remembers what it is told."""

    def __init__(self):
        self.notes, self.steps, self.evaluations = [], [], []

    def on_message(self, sentence):
        self.notes.append(sentence)

    def on_log(self, step, record):
        self.steps.append(record)

    def on_evaluate(self, step, record):
        self.evaluations.append(record)


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work; a test of threads sets its own number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def corpus(small_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine") / "corpus"
    return Corpus.open(shutil.copytree(small_corpus, folder))


@pytest.fixture
def network(corpus):
    """Builds a tiny BERT with the heads that an objective needs."""

    def build(objective, *, dropout=0.0, seed=5):
        settings = {**SIZES, "hidden_dropout_prob": dropout}
        start = Start(
            start="bert-tiny", config={**settings, "attention_probs_dropout_prob": dropout}
        )
        return trained_network(starting_model(start, objective, corpus, seed), objective, seed)

    return build


@pytest.fixture
def loader(corpus):
    """Makes a loader of the pieces of each step."""

    def build(objective, *, piece=64, workers=1, tokens=256, part="train", **more):
        split = corpus.split(part)
        examples = objective.chosen_examples().arrange(
            split, corpus.tokenizer, 5, corpus.folder / INDEX_FOLDER
        )
        cutter = MicroBatcher(
            objective, 5, Vocabularies.of(corpus.tokenizer, split), piece, workers
        )
        return Loader(examples, cutter, seed=5, batch_tokens=tokens, workers=0, **more)

    return build


@pytest.fixture
def workers():
    """Makes workers, and ends them."""
    made = []

    def build(count=None, device=CPU):
        made.append(WorkerPool(device, count))
        return made[-1]

    yield build
    for each in made:
        each.close()


@pytest.fixture
def gradients(workers):
    """Makes what takes the gradient of a step."""

    def build(model, objective, count=1, seed=5):
        def cost(tensors):
            return objective.loss(model, tensors)

        return Gradients(model, cost, ProcessGroup("cpu"), workers(count), seed=seed)

    return build


@pytest.fixture
def trained(network, loader, workers, tmp_path):
    """Puts a trainer together: `trained(steps=5, rate=1e-3)`; its parts can be told apart."""

    def build(
        *, name="bert", length=24, steps=6, rate=1e-3, dropout=0.1, every=1, keep=2, count=1,
        folder="run", evaluate=0, clip=1.0, watched=2, when="go on", since=-1, **training,
    ):  # fmt: skip
        objective = published(name, length)
        model = network(objective, dropout=dropout)
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        checkpointing = Checkpointing(every_steps=every, keep=keep, when_unwritable=when)
        held_out = loader(objective, tokens=200, part="validation").batch(0)
        metrics = Metrics(place / "metrics.jsonl", since)
        snapshots = Snapshots(place / "snapshots", keep)
        builtin = (
            MetricsLogger(objective.loss_names, Logging(every_steps=watched), metrics, when),
            HeldOutEvaluation(objective.loss_names, held_out, evaluate),
            Checkpointer(snapshots, checkpointing),
        )
        trainer = Trainer(
            model=model,
            loss=objective.loss,
            stages=Stages([Stage(loader(objective, workers=count), steps)]),
            training=Training(
                steps=steps,
                batch_tokens=256,
                learning_rate=rate,
                schedule=Constant(warmup_steps=0),
                max_grad_norm=clip,
                **training,
            ),
            seed=5,
            ranks=ProcessGroup("cpu"),
            workers=workers(count),
            builtin=builtin,
            callback=Notebook(),
        )
        trainer.metrics, trainer.snapshots = metrics, snapshots
        trainer.logger, trainer.evaluation, _ = builtin
        return trainer

    return build


@pytest.fixture
def weights():
    """The weights of a model, by name, as they are now."""
    return lambda model: {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.fixture
def tensors():
    """Small tensors for a snapshot."""

    def make(value=1.0):
        return {
            "model": {"a": torch.full((3,), value), "b": torch.zeros(2, 2)},
            "optimizer": {"a/means": torch.full((3,), value / 2)},
        }

    return make
