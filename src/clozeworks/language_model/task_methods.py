"""The methods of a language model with a task head: classify, compare, tag, answer, write."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack, overload

from clozeworks.checkpoints.tasks import AnyTask, task_of
from clozeworks.data.labelled.columns import named_columns
from clozeworks.data.labelled.in_memory import Frame, listed_texts, prediction_rows
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.inference.loop import BatchKeywords
from clozeworks.inference.predict import answers
from clozeworks.language_model.arguments import in_python
from clozeworks.language_model.batching import batch_options
from clozeworks.language_model.loaded import LoadedCheckpoint
from clozeworks.language_model.pair_scores import scored_pairs
from clozeworks.tasks.answer import Answer, Answered
from clozeworks.tasks.classify import Classified, Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.task import RankedDocument, ranked
from clozeworks.tasks.tag import Tag, Tagged
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.task import Task, named_class, task_classes
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, is_chat
from clozeworks.tasks.text_to_text.task import Composed, TextToText

TextPair = tuple[str, str]
WordList = list[str] | tuple[str, ...]
TaskType = TypeVar("TaskType", bound=AnyTask)


class TaskMethods(LoadedCheckpoint):
    """The methods of a language model with a task head.

    Each takes one item, or several in any form that `predict` takes, and keyword arguments as
    `predict` does. It returns the prediction for one, and a list of predictions for several.
    """

    @property
    def task(self) -> AnyTask | None:
        """What the model was trained to answer; None if it has no head for a task."""
        return task_of(self.checkpoint, self.name)

    @overload
    def classify(self, texts: str, **options: Any) -> Classified: ...
    @overload
    def classify(self, texts: Sequence[str] | Frame, **options: Any) -> list[Classified]: ...
    def classify(self, texts: str | Sequence[str] | Frame, **options: Any) -> Any:
        """The label of each text; or several labels, or a number, as the model was trained.

        Long texts are read through windows.
        """
        return self._predict_as(Classify, texts, isinstance(texts, str), options)

    @overload
    def compare(self, first: str, second: str, **options: Any) -> Classified: ...
    @overload
    def compare(
        self, first: Sequence[str], second: Sequence[str], **options: Any
    ) -> list[Classified]: ...
    @overload
    def compare(self, first: TextPair, **options: Any) -> Classified: ...
    @overload
    def compare(self, first: Sequence[TextPair] | Frame, **options: Any) -> list[Classified]: ...
    def compare(
        self,
        first: str | TextPair | Sequence[str] | Sequence[TextPair] | Frame,
        second: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Any:
        """How two texts are related.

        Args:
            first: The first text, or several; or, without `second`, one pair, or several in any
                form that `predict` takes.
            second: The text it is compared with; one for each of the first.
            options: As for `predict`.
        """
        if second is None and not isinstance(first, str):
            alone = isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], str)
            return self._predict_as(Compare, first, alone, options)
        pairs, alone = paired(first, second, "first text", "second text")
        return self._predict_as(Compare, pairs, alone, options)

    def tag(
        self,
        texts: str | Sequence[str | WordList] | Frame,
        *,
        scheme: str | None = None,
        **options: Any,
    ) -> Tagged | list[Tagged]:
        """The tag of every word, and the entities they make.

        Args:
            texts: One text or several; each may also be a list of words that are kept as they are.
            scheme: BIO, IOB1, BIOES, BMES or IO, to have tags written in another scheme than the
                model's.
            options: As for `predict`.
        """
        task = self.task_for(Tag)
        items = [texts] if isinstance(texts, str) else prediction_rows(texts, "texts")
        items = [WordsItem.of_words(t) if isinstance(t, list | tuple) else t for t in items]
        predictions = self.predict(items, task, **options)
        if scheme is not None:
            predictions = [task.in_scheme(each, scheme) for each in predictions]
        return predictions[0] if isinstance(texts, str) else predictions

    @overload
    def answer(self, question: str, context: str, **options: Any) -> Answered: ...
    @overload
    def answer(
        self, question: Sequence[str], context: Sequence[str], **options: Any
    ) -> list[Answered]: ...
    @overload
    def answer(self, question: Frame, **options: Any) -> list[Answered]: ...
    def answer(
        self,
        question: str | Sequence[str] | Frame,
        context: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Any:
        """The stretch of a context that answers a question.

        Args:
            question: The question, or several; or, without `context`, questions with their contexts
                in any form that `predict` takes: a frame, or a list of dicts.
            context: The text its answer stands in; one for each question.
            options: As for `predict`.
        """
        if context is None and not isinstance(question, str):
            rows = prediction_rows(question, "question")
            if not any(isinstance(row, str) for row in rows):
                return self._predict_as(Answer, rows, False, options)
        pairs, alone = paired(question, context, "question", "context")
        return self._predict_as(Answer, pairs, alone, options)

    @overload
    def text_to_text(self, texts: str, **options: Any) -> Composed: ...
    @overload
    def text_to_text(
        self, texts: Sequence[str | SourceItem | ChatItem] | Frame, **options: Any
    ) -> list[Composed]: ...
    def text_to_text(
        self, texts: str | Sequence[str | SourceItem | ChatItem] | Frame, **options: Any
    ) -> Any:
        """What the model writes for each text, which may be a `SourceItem` or a `ChatItem`.

        A chat may also be a list of dicts with a role and a content; then what the assistant says
        next is written.
        """
        if alone := is_chat(texts):
            texts = {"messages": texts}
        elif isinstance(texts, list | tuple):
            texts = [{"messages": each} if is_chat(each) else each for each in texts]
        return self._predict_as(TextToText, texts, alone or isinstance(texts, str), options)

    def rerank(
        self, query: str, documents: Sequence[str], *, top: int | None = None, **options: Any
    ) -> list[RankedDocument]:
        """Documents with how well they answer a query, the best first; equal ones stay in order.

        A model that was trained to compare two texts reranks, too: by its number, or by the
        probability of its last label, which by custom is "1", "relevant" or "entailment".

        Args:
            query: The query.
            documents: The documents.
            top: How many are returned; all if not given.
            options: As for `predict`.

        Raises:
            UnsupportedError: If the model does not read two texts together.
        """
        if top is not None and top < 1:
            raise SettingError("top", top, "it must be at least 1")
        texts = listed_texts(documents, "documents")
        return ranked(texts, scored_pairs(self, query, texts, **options))[:top]

    def _predict_as(self, kind: type[AnyTask], items: Any, alone: bool, options: Any) -> Any:
        """The predictions of one kind of task; `alone` says that `items` is a single one."""
        predictions = self.predict([items] if alone else items, self.task_for(kind), **options)
        return predictions[0] if alone else predictions

    def task_for(self, kind: type[TaskType]) -> TaskType:
        """The model's task as one of a kind: what it was trained for, or what its head can do.

        Raises:
            UnsupportedError: If it cannot do that.
        """
        task = self.task
        suited = None if task is None else task.suited_to(kind) or kind.reading_head_of(task)
        if suited is None:
            suited = kind.without_training(self)
        if suited is None:
            known = f"it can {task.ability}" if task else "it has no head for a task"
            raise UnsupportedError(
                f"{self.name} cannot {kind.ability}: {known}; use a checkpoint with such a head "
                f"({kind.architecture}), or train one with clozeworks finetune."
            )
        return suited  # type: ignore[return-value]

    def predict(
        self,
        items: Any,
        task: AnyTask | type[AnyTask] | str | None = None,
        *,
        columns: Mapping[str, str | int] | str | None = None,
        **options: Unpack[BatchKeywords],
    ) -> list[Any]:
        """The prediction of a task for every item.

        Args:
            items: `TextItem`, `PairItem`, `WordsItem`, `QuestionItem`, `SourceItem` or `ChatItem`,
                as the task takes them; or rows to make them of: texts, tuples of texts, or dicts
                such as `{"question": …, "context": …}`. They may be in a list, a frame of pandas,
                polars or pyarrow, a dataset, a dict of columns, or a file named by a `Path`.
            task: The task, or the name of one, such as "classify", that the model's head can do;
                the one the model was trained for if not given.
            columns: Which column is what, such as `{"text": "review"}`; found if not given.
            options: `batch_tokens` (tokens per batch), `progress` (True for a bar, or a function
                that is called with the number of tokens done and of all tokens), `cancelled`
                (called before each batch; True ends the work).

        Raises:
            InputError: If no item can be made of a row.
            UnsupportedError: If the model has no head for a task.
        """
        rows = prediction_rows(items)
        if task is None:
            task = self._own_task(rows)
        elif not isinstance(task, Task):
            task = self.task_for(named_class(task))
        with in_python():
            made = task.items_from(rows, named_columns(columns, task.item_type))
        with batch_options(options, self.predict) as batching:
            return answers(
                task,
                self.model,
                self.tokenizer,
                [
                    item if item is row else task.from_input(item)
                    for item, row in zip(made, rows, strict=True)
                ],
                max_length=self.max_length,
                options=batching,
            )

    def _own_task(self, items: Sequence[Any]) -> AnyTask:
        """What the model was trained for, as such items want it."""
        task = self.task
        if task is None:
            raise UnsupportedError(
                f"{self.name} cannot answer: it has no head for a task; use a checkpoint with one, "
                "or train one with clozeworks finetune."
            )
        if not items or isinstance(items[0], task.item_type):
            return task
        kinds = [kind for kind in task_classes().values() if kind.item_type is type(items[0])]
        return next((each for kind in kinds if (each := task.suited_to(kind))), task)


def paired(first: Any, second: Any, one: str, other: str) -> tuple[Any, bool]:
    """Two texts as a pair, or two lists of texts as pairs; and whether it is one pair.

    Raises:
        InputError: If one of the two is missing or has another length.
    """
    if isinstance(first, str) and isinstance(second, str):
        return (first, second), True
    texts = listed_texts(first, f"{one}s")
    others = [] if second is None else listed_texts(second, f"{other}s")
    if isinstance(first, str) or isinstance(second, str) or len(texts) != len(others):
        raise InputError(
            f"{one}s and {other}s do not match; each {one} needs its {other}; give two texts, or "
            "two lists of equal length."
        )
    return list(zip(texts, others, strict=True)), False
