"""What `cw.load` returns: a checkpoint that can fill, embed, generate, predict and be saved."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack, overload

import torch

from clozeworks.checkpoints import folder as folders
from clozeworks.checkpoints.folder import SHARD_BYTES
from clozeworks.checkpoints.generation import noted_sentinels
from clozeworks.checkpoints.hub import resolve, upload
from clozeworks.checkpoints.sentence import usual_pooling
from clozeworks.checkpoints.tasks import AnyTask, OldHead, with_task
from clozeworks.checkpoints.vocabulary import extended
from clozeworks.core.model import Model
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.labelled.in_memory import listed_texts, value_in_words
from clozeworks.data.labelled.labels import AskedKind
from clozeworks.data.labelled.reading import Reading
from clozeworks.display.notebook import progress_stream
from clozeworks.errors import SettingError, Stated, UnsupportedError
from clozeworks.inference import fill as filling
from clozeworks.inference.fill import Filled
from clozeworks.inference.fill_spans import fill_spans
from clozeworks.inference.loop import BatchKeywords, BatchOptions
from clozeworks.language_model.arguments import as_arguments, in_python, refuse_unknown
from clozeworks.language_model.batching import batch_options
from clozeworks.language_model.evaluated import (
    EvaluatedModel,
    EvaluationSettings,
    NamedColumns,
    Tell,
)
from clozeworks.language_model.evaluation import evaluate
from clozeworks.language_model.generation_methods import GenerationMethods
from clozeworks.language_model.inspection_methods import InspectionMethods
from clozeworks.language_model.look_methods import LookMethods
from clozeworks.language_model.scoring_methods import ScoringMethods
from clozeworks.language_model.space_methods import SpaceMethods
from clozeworks.runtime.devices import find_device, find_dtype
from clozeworks.tasks.metrics.custom import Metric
from clozeworks.text.training.extend import LEAST, Extension, extend
from clozeworks.wording import counted, visible


class FillKeywords(BatchKeywords, total=False):
    """The keyword arguments of `fill`."""

    top: int
    words: Sequence[str] | None
    source_locations: Sequence[str] | None


class LanguageModel(
    LookMethods, SpaceMethods, ScoringMethods, GenerationMethods, InspectionMethods
):
    """A model with its tokenizer, its family and everything else its folder states.

    Methods that take one text or several return one result for one, and a list for several.
    """

    def to(self, device: str | torch.device) -> "LanguageModel":
        """Moves the weights to a device (cpu, cuda, cuda:1, mps, auto) and returns the model.

        Raises:
            SettingError: If this machine has no such device.
        """
        self.model.to(find_device(device))
        return self

    @overload
    def fill(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[FillKeywords]
    ) -> Filled: ...
    @overload
    def fill(self, texts: Sequence[str], **options: Unpack[FillKeywords]) -> list[Filled]: ...
    def fill(
        self,
        texts: str | Sequence[str],
        *,
        top: int = 5,
        words: Sequence[str] | None = None,
        source_locations: Sequence[str] | None = None,
        **options: Unpack[BatchKeywords],
    ) -> Filled | list[Filled]:
        """Ranks candidates for every gap, written `[MASK]` or as the model's own mask token.

        An encoder-decoder such as T5 generates any number of words for a gap; its gaps may also be
        written `<extra_id_0>` and so on.

        Args:
            texts: One text or several.
            top: How many candidates per gap.
            words: If given, only these words are ranked; not for encoder-decoders.
            source_locations: Where each text came from, for messages: `notes.txt, line 3`.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Raises:
            InputError: If a text has no gap.
            UnsupportedError: If the model has no vocabulary head.
        """
        if "vocabulary" not in self.blueprint.heads:
            raise UnsupportedError(
                f"{self.name} has no vocabulary head, so it cannot fill gaps; use a checkpoint "
                f"saved with its masked-language-model head."
            )
        several = listed_texts(texts)
        if self.blueprint.decoder is not None:
            with batch_options(options, self.fill) as batching:
                filled = self._fill_spans(several, top, words, source_locations, batching)
        else:
            with batch_options(options, self.fill) as batching:
                filled = filling.fill(
                    self.model,
                    self.tokenizer,
                    several,
                    top=top,
                    words=words,
                    max_length=self.max_length,
                    source_locations=source_locations,
                    options=batching,
                )
        return filled[0] if isinstance(texts, str) else filled

    def _fill_spans(
        self,
        texts: Sequence[str],
        top: int,
        words: Sequence[str] | None,
        source_locations: Sequence[str] | None,
        options: BatchOptions,
    ) -> list[Filled]:
        if words is not None:
            rule = f"{self.name} generates any number of words for a gap and ranks no list"
            raise SettingError("words", words, rule, "leave it out")
        writer = self.writer()
        assert writer.start is not None
        return fill_spans(
            self.model,
            self.tokenizer,
            texts,
            start=writer.start,
            ends=writer.ends,
            top=top,
            sentinels=noted_sentinels(self.checkpoint.notes, self.name),
            source_locations=source_locations,
            options=options,
        )

    def evaluate(
        self,
        data: Any,
        *,
        task: AnyTask | type[AnyTask] | str | None = None,
        columns: NamedColumns = None,
        labels: AskedKind | None = None,
        label_separator: str | None = None,
        header: bool | None = None,
        file_format: FileFormat | None = None,
        skip_bad_rows: bool = False,
        metric: Metric | str | None = None,
        threshold: float | None = None,
        rerank: "LanguageModel | None" = None,
        intervals: bool = True,
        quiet: bool = False,
        **options: Unpack[BatchKeywords],
    ) -> EvaluatedModel:
        """Measures how good the model is on labelled data, with intervals of 95 %.

        What was found out about the data, progress and the values are shown on standard error, in
        a notebook below the cell.

        Args:
            data: A file or several, a frame of pandas, polars or pyarrow, a dataset, a dict of
                columns, or a list of rows or items; or a folder in BEIR's layout.
            task: The task, or its name; "fill" for gaps. What the model was trained for if not
                given.
            columns: Which column is what, such as `{"text": "review", "label": "stars"}`; found if
                not given.
            labels: one, several or numbers; as the model was trained if not given.
            label_separator: What stands between several labels of one cell.
            header: Whether the first row of csv or tsv is a header; found out if not given.
            file_format: How files are read: format, separator, quoting, encoding, bad bytes.
            skip_bad_rows: Whether rows that cannot be used are dropped and counted.
            metric: The value that decides: its name, a GLUE task such as mrpc, or a function of
                what is right and what was predicted.
            threshold: For questions: no answer if "none" is ahead by more than this. For vectors of
                pairs with 0 or 1: pairs of at least this cosine count as similar.
            rerank: For a folder in BEIR's layout: a model that compares two texts; it scores the
                best 100 documents of each query again.
            intervals: Whether intervals are measured, by resampling.
            quiet: Whether nothing is shown.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Returns:
            The values (`result.value`, `result.values`), how well each label is known, and every
            prediction (`result.predictions`, `result.records`).

        Raises:
            InputError: If the data cannot be used.
            UnsupportedError: If the model has no head for the task.
        """
        refuse_unknown(options, "evaluate", LanguageModel.evaluate)
        show: Tell = (lambda sentence: None) if quiet else _show
        keywords = {"progress": not quiet, **options}
        with in_python(file_format=True):
            reading = Reading(
                header=header,
                labels=labels,
                label_separator=label_separator,
                **vars(file_format or FileFormat()),
            )
            settings = EvaluationSettings(
                task, columns, reading, skip_bad_rows, metric, threshold, intervals, rerank
            )
            result = evaluate(self, data, settings, tell=show, **keywords)
        amount = counted(result.count, result.labelled.item.asked_unit)
        show(f"{result.command}, {self.name} on {', '.join(result.labelled.files)}: {amount}")
        for line in result.summary():
            show(line)
        return result

    def extend(self, texts: Iterable[str], count: int, *, least: int = LEAST) -> Extension:
        """Extends the vocabulary for text it was not made for; each new token gets an embedding.

        It is initialized with the mean of the tokens it replaces. `model.model` is a new network
        afterwards.

        Args:
            texts: Text of the new kind.
            count: The maximum number of tokens to add.
            least: How often a new token must occur in the text.

        Returns:
            The new tokens, and how many tokens the text has before and after.
        """
        extension = extend(self.tokenizer, texts, count, least=least)
        self.checkpoint = extended(self.checkpoint, extension)
        return extension

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool | None = None,
        message: str = "Upload model",
        revision: str | None = None,
        token: str | None = None,
        card: str | None = None,
    ) -> str:
        """Uploads what `save` writes to the hub, into a repository that is made if need be.

        Args:
            name: `user/model` or `organization/model`.
            private: Whether a new repository is private; as the account is set up if not given.
            message: What the commit says.
            revision: The branch; the main one if not given.
            token: An access token; the one `hf auth login` stored if not given.
            card: The content of README.md; the repository's own stays if not given.

        Returns:
            The address of the commit.

        Raises:
            HubError: If the hub refuses it or cannot be reached.
        """
        with TemporaryDirectory() as folder:
            saved = self.save(Path(folder) / "model", card=card)
            return upload(
                saved, name, private=private, message=message, revision=revision, token=token
            )

    def for_task(self, task: AnyTask, *, seed: int = 0, head: OldHead = "fit") -> "LanguageModel":
        """Returns the same encoder with the head of a task, newly initialized if it had none.

        Args:
            task: Such as `Classify(labels=("negative", "positive"))`.
            seed: Decides the new weights.
            head: What happens to an existing head: `fit` keeps one with the same labels, `remap`
                keeps the rows of labels it knows, `fresh` initializes it anew, `refuse` raises an
                error unless the labels are the same.
        """
        return LanguageModel(with_task(self.checkpoint, task, seed=seed, head=head), self.name)

    def with_network(self, network: Model) -> "LanguageModel":
        """Returns another network of the same family with this model's tokenizer and settings."""
        pooling = usual_pooling(network.blueprint)
        checkpoint = replace(self.checkpoint, model=network, pooling=pooling, notes={})
        return LanguageModel(checkpoint, self.name)

    def save(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        shard_bytes: int = SHARD_BYTES,
        card: str | None = None,
    ) -> Path:
        """Writes a folder that transformers and sentence-transformers can load.

        Args:
            folder: The folder to create; it may exist if it is empty.
            overwrite: Whether a folder with content is replaced.
            shard_bytes: Weights beyond this size are split into several files.
            card: The content of README.md, the model card; none is written if not given.

        Raises:
            OutputError: If the folder has content and `overwrite` is False.
        """
        folders.save(
            self.checkpoint,
            Path(folder),
            overwrite=overwrite,
            shard_bytes=shard_bytes,
            card=card,
        )
        return Path(folder)


def _show(sentence: str) -> None:
    shown = visible(as_arguments(sentence, file_format=True), lines=True)
    print(shown, file=progress_stream(), flush=True)


def load(
    name: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
) -> LanguageModel:
    """Loads a model from a folder or from the hub.

    Args:
        name: A folder in the Hugging Face layout, or a name on the hub.
        device: cpu, cuda, cuda:1, mps, or auto for the best one there is; the CPU if not given.
        dtype: What weights are converted to: float32, bfloat16 or float16. As they are stored if
            not given, or auto.
        revision: A branch, tag or commit of a hub model.

    Raises:
        CheckpointError: If the folder is incomplete or damaged.
        HubError: If there is no such folder and the hub cannot provide the model.
        SettingError: If this machine has no such device.
        UnknownName: If the number type is not one that models compute in.
    """
    if not isinstance(name, str | Path):
        rule = "it must be a folder or a hub name"
        raise SettingError("name", Stated(value_in_words(name)), rule)
    where = find_device(device or "cpu")
    checkpoint = folders.load(resolve(name, revision=revision), dtype=find_dtype(dtype))
    return LanguageModel(checkpoint, str(name)).to(where)


def outline(name: str | Path) -> LanguageModel:
    """Reads a model without its weights: it can say what it is, but computes nothing.

    Args:
        name: A folder in the Hugging Face layout, or a name on the hub.

    Raises:
        CheckpointError: If the folder is incomplete or damaged.
        HubError: If there is no such folder and the hub cannot provide the model.
    """
    return LanguageModel(folders.outline(resolve(name)), str(name))
