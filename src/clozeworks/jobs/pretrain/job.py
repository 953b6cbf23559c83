"""Pre-training: a corpus and a recipe in, a model folder out; stopped and gone on at will."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clozeworks import config
from clozeworks.core.heads.vocabulary import NAME as FILLING
from clozeworks.core.model import Model
from clozeworks.data.corpus.corpus import INDEX_FOLDER, VALIDATION, Corpus
from clozeworks.data.corpus.verify import check_shards
from clozeworks.data.examples import Examples
from clozeworks.data.examples.loader import Loader
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.checkpointer import Checkpointer
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.evaluation import HeldOutEvaluation
from clozeworks.engine.guards import Diverged
from clozeworks.engine.metrics import Metrics, MetricsLogger
from clozeworks.engine.param_groups import frozen_message
from clozeworks.engine.snapshots import Snapshots
from clozeworks.engine.stages import MicroBatcher, MicroBatches, Stage, Stages
from clozeworks.engine.trainer import Outcome, Trainer
from clozeworks.errors import OutputError, SettingError, UnsupportedError
from clozeworks.jobs.pretrain.baseline import Baseline, unigram_baseline
from clozeworks.jobs.pretrain.checks import check_lengths, first_loss, preflight
from clozeworks.jobs.pretrain.recipe import Recipe, read_recipe
from clozeworks.jobs.pretrain.report import guessing_loss, model_card, write_report
from clozeworks.jobs.pretrain.starting import starting_model, trained_network
from clozeworks.jobs.pretrain.summary import Pretrained, beginning_of, example_of
from clozeworks.language_model import LanguageModel
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.objective import Objective
from clozeworks.reports.pretrain import PretrainSummary
from clozeworks.runs.folder import MODEL, NOTES, SESSIONS, SNAPSHOTS, command_of, read_lines
from clozeworks.runs.recorder import RunRecorder, open_run
from clozeworks.runs.session import newest_snapshot, open_session, refuse_another_recipe
from clozeworks.runtime.allocator import memory_kept
from clozeworks.runtime.workers import WorkerPool


def pretrain(
    recipe: Recipe | Path | str | dict[str, Any],
    *changes: str,
    callback: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    device: str | None = None,
) -> Pretrained:
    """Pre-trains a model, or goes on with a run that was stopped.

    Args:
        recipe: A recipe, a TOML file, or what it would hold.
        changes: Settings to change: `training.steps=2000`.
        callback: The display, or None.
        callbacks: Callbacks of yours; one that fails is reported and does not end the run.
        device: Where to compute: cpu, cuda, cuda:1, mps or auto; as the recipe says if not given.

    Raises:
        SettingError: If a setting cannot be used, or is not the one the run was begun with.
        OutputError: If the folder holds something else, or another program uses it.
    """
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe, changes)
    elif changes:
        recipe = read_recipe(config.plain(recipe), changes)
    recipe, folder = recipe.settled(), Path(recipe.run)
    opened = open_run(
        "pretrain", folder, recipe.logging, callback, callbacks, device or recipe.device
    )
    with opened as (ranks, recorder):
        done = _Run(recipe, folder, ranks, recorder).run()
        recorder.end(finished=done.model is not None, step=done.outcome.step)
        return done


def _corpus(folder: str) -> Corpus:
    if not Path(folder).exists():
        build = f"clozeworks corpus build TEXTS --tokenizer DIR --out {shlex.quote(folder)}"
        rule = "there is no such folder"
        raise SettingError("data.corpus", folder, rule, f"name another, or make it with: {build}")
    return Corpus.open(folder)


class _Run:
    """One session of a run."""

    def __init__(
        self, recipe: Recipe, folder: Path, ranks: ProcessGroup, recorder: RunRecorder
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.ranks = ranks
        self.callback = recorder
        self.corpus = _corpus(recipe.data.corpus)
        self.snapshots = Snapshots(folder / SNAPSHOTS, recipe.checkpointing.keep)

    def run(self) -> Pretrained:
        begun = bool(self.snapshots.steps())
        if self.ranks.leads:
            refuse_another_recipe(self.folder, self._written(), begun=begun)
            check_shards(self.corpus)
        recipe = self.recipe
        recipe.training.check_device(self.ranks.device)
        stages = recipe.objectives()
        objective = stages[0][0]
        model = starting_model(recipe.model, objective, self.corpus, recipe.seed, begun=begun)
        longest, published = max(length for _, length, _ in stages), model.checkpoint.config
        max_positions = model.family.max_positions_key if recipe.model.fresh else None
        check_lengths(model.blueprint, objective, longest, published, max_positions=max_positions)
        network = trained_network(model, objective, recipe.seed).to(self.ranks.device)
        recipe.training.freezing.check(network)
        count = 1 if objective.couples_examples else None
        with memory_kept(), WorkerPool(self.ranks.device, count) as workers:
            return self._trained(model, network, objective, stages, workers)

    def _trained(
        self,
        model: LanguageModel,
        network: Model,
        objective: Objective,
        stages: Sequence[tuple[Objective, int, int]],
        workers: WorkerPool,
    ) -> Pretrained:
        recipe = self.recipe
        snapshot = newest_snapshot(self.snapshots, self.callback)
        if snapshot is None and (self.folder / MODEL).exists():
            raise OutputError(
                f"{self.folder / MODEL} is there, but no snapshot to go on from; the run would "
                "begin again at the first step; name another folder for the run, or remove this "
                "one."
            )
        step = snapshot.step if snapshot else 0
        loaders = self._loaders(stages, workers)
        held_out = self._held_out(objective, workers)
        if self.ranks.leads and snapshot is None:
            preflight(recipe, self.folder, network, loaders, workers, self.callback)
        names, saving = objective.loss_names, recipe.checkpointing
        every_steps = recipe.evaluation.settled(loaders.epoch_steps).every_steps
        evaluation = HeldOutEvaluation(names, held_out, every_steps)
        written, logging = self._written(), recipe.logging
        session = open_session(
            self.folder, self.snapshots, snapshot, written, self.ranks, self.callback
        )
        with session as (metrics, callback):
            self.callback.start(self.ranks.count, step)
            trainer = Trainer(
                model=network,
                loss=objective.loss,
                stages=loaders,
                training=recipe.training,
                seed=recipe.seed,
                ranks=self.ranks,
                workers=workers,
                builtin=(
                    MetricsLogger(names, logging, metrics, saving.when_unwritable),
                    evaluation,
                    Checkpointer(self.snapshots, saving),
                ),
                callback=callback,
            )
            if message := frozen_message(network):
                callback.on_message(message)
            baseline = unigram_baseline(self.corpus, held_out, self.ranks)
            if snapshot is not None:
                trainer.resume(snapshot)
                snapshot.tensors.clear()  # all was copied, and the files need not stay mapped
                callback.on_message(_left(step, loaders.steps))
            else:
                first = evaluation.evaluate(trainer)
                first_loss(first, baseline, callback, fresh=recipe.model.fresh)
            try:
                outcome = trainer.run()
            except Diverged as error:
                self._report(metrics, loaders, baseline, None, str(error))
                raise
        records = metrics.records if metrics is not None else []
        path, filling = None, None
        if outcome.finished and self.ranks.leads:
            path, companions = self.folder / MODEL, objective.companions(network)
            if step < loaders.steps or not path.exists():
                objective.settle(network, model.model)
                model.checkpoint.notes |= objective.notes
                self._export(path, model, companions, outcome, records, baseline)
            networks = {MODEL: model.model, **companions}
            fills = [name for name, net in networks.items() if FILLING in net.blueprint.heads]
            filling = next((self.folder / n for n in fills if (self.folder / n).exists()), None)
        report = self._report(metrics, loaders, baseline, outcome)
        example = example_of(self.corpus.tokenizer)
        writing = beginning_of(model.blueprint, objective.loss_names)
        return Pretrained(
            self.folder, outcome, path, records, baseline, report, filling, example, writing
        )

    def _report(
        self,
        metrics: Metrics | None,
        stages: Stages,
        baseline: Baseline | None,
        outcome: Outcome | None,
        problem: str = "",
    ) -> Path | None:
        """Curves and a page about the run, if they are wanted and this is the rank that writes."""
        if metrics is None or not self.recipe.logging.report:
            return None
        sessions = read_lines(self.folder / SESSIONS)
        summary = PretrainSummary(
            name=self.folder.resolve().name,
            recipe=config.plain(self.recipe),
            manifest=self.corpus.manifest,
            records=metrics.records,
            borders=stages.begins(),
            outcome=outcome,
            problem=problem,
            guessing=guessing_loss(baseline),
            sessions=sessions,
            notes=[str(line.get("note", "")) for line in read_lines(self.folder / NOTES)],
            command=command_of(sessions[-1]) if sessions else None,
        )
        return write_report(self.folder, summary, self.callback)

    def _arranged(self, part: str, objective: Objective) -> Examples:
        corpus, index = self.corpus, self.corpus.folder / INDEX_FOLDER
        examples = objective.chosen_examples()
        return examples.arrange(corpus.split(part), corpus.tokenizer, self.recipe.seed, index)

    def _loaders(self, stages: Sequence[tuple[Objective, int, int]], workers: WorkerPool) -> Stages:
        loaders, size = [], self.recipe.training.batch_size
        sizes = zip(stages, self.recipe.batch_tokens(), strict=True)
        for (objective, length, steps), tokens in sizes:
            examples = self._arranged("train", objective)
            loader = self._loader(
                "train", objective, workers, examples, tokens=tokens, batch_size=size
            )
            loaders.append(Stage(loader, steps, f"texts of up to {length} tokens"))
        return Stages(loaders)

    def _loader(
        self,
        part: str,
        objective: Objective,
        workers: WorkerPool,
        examples: Examples,
        *,
        tokens: int | None = None,
        batch_size: int | None = None,
    ) -> Loader[MicroBatches]:
        recipe, split = self.recipe, self.corpus.split(part)
        if batch_size is None and tokens is not None and tokens < examples.mean_length:
            mean = f"{examples.mean_length:,.0f}"
            rule = f"one example has {mean} on average, and a step needs at least one"
            advice = "raise it, or shorten the examples"
            raise SettingError("training.batch_tokens", tokens, rule, advice)
        source = Vocabularies.of(self.corpus.tokenizer, split)
        max_tokens = recipe.training.micro_batch_tokens
        return Loader(
            examples,
            MicroBatcher(objective, recipe.seed, source, max_tokens, workers.count),
            seed=recipe.seed,
            batch_tokens=tokens if batch_size is None else None,
            batch_size=batch_size,
            rank=self.ranks.rank,
            ranks=self.ranks.count,
        )

    def _held_out(self, objective: Objective, workers: WorkerPool) -> MicroBatches:
        """This rank's part of the text a model is measured on: the same at every step."""
        if VALIDATION not in self.corpus.splits:
            return []
        examples = self._arranged(VALIDATION, objective)
        wanted = round((self.recipe.evaluation.tokens or 0) / examples.mean_length)
        size = examples.size(0)
        if size < self.ranks.count:
            return []
        wanted = max(1, min(max(self.ranks.count, wanted), size))
        loader = self._loader(VALIDATION, objective, workers, examples, batch_size=wanted)
        return loader.batch(0)

    def _written(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(json.dumps(config.plain(self.recipe)))
        data["identity"] = {
            "corpus": self.corpus.manifest["splits"]["train"]["identity"],
            "tokenizer": self.corpus.manifest["tokenizer"]["fingerprint"],
        }
        return data

    def _export(
        self,
        path: Path,
        model: LanguageModel,
        companions: Mapping[str, Model],
        outcome: Outcome,
        records: Sequence[Mapping[str, Any]],
        baseline: Baseline | None,
    ) -> None:
        """The trained model as a folder for people, with a card that says how it came about.

        What was trained beside it comes first: where the model's folder is, all is done.
        """
        last = [record["evaluation"] for record in records if "evaluation" in record]
        beside = {self.folder / name: model.with_network(net) for name, net in companions.items()}
        for folder, saved in {**beside, path: model}.items():
            saved.model.eval()
            recipe, results = config.plain(self.recipe), last[-1] if last else {}
            card = model_card(saved, recipe, self.corpus.manifest, outcome, results, baseline)
            try:
                saved.save(folder, overwrite=True, card=card)
            except UnsupportedError as error:
                if saved is model:
                    raise
                self.callback.on_message(f"The {folder.name} is not saved: {error}")


def _left(step: int, steps: int) -> str:
    """How much of a run is left, in a sentence."""
    if step < steps:
        return f"Going on from step {step:,} of {steps:,}."
    done = "The only step is" if steps == 1 else f"All {steps:,} steps are"
    return f"{done} done; nothing is left to train."
