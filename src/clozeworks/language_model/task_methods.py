"""What a model with a task can be asked: classify, compare, tag, answer, text to text."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar, Unpack, overload

from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.checkpoints.tasks import AnyTask, task_of
from clozeworks.core.model import Model
from clozeworks.errors import InputError, UnsupportedError
from clozeworks.inference.loop import BatchKeywords, BatchOptions
from clozeworks.inference.predict import answers
from clozeworks.tasks.answer import Answer, Answered
from clozeworks.tasks.classify import Classified, Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tag import Tag, Tagged
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.task import task_classes
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem
from clozeworks.tasks.text_to_text.task import Composed, TextToText
from clozeworks.text.tokenizer.tokenizer import Tokenizer

TextPair = tuple[str, str]
WordList = list[str] | tuple[str, ...]
TaskType = TypeVar("TaskType", bound=AnyTask)


class TaskMethods(ABC):
    """The part of a language model that answers.

    Attributes:
        name: What messages call the model.
        checkpoint: Everything its folder says.
    """

    name: str
    checkpoint: Checkpoint

    @property
    @abstractmethod
    def model(self) -> Model:
        """The network."""

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """The most tokens it takes."""

    @property
    def task(self) -> AnyTask | None:
        """What the model was trained to answer; None if it has no head for a task."""
        return task_of(self.checkpoint, self.name)

    @overload
    def classify(self, texts: str, **options: Any) -> Classified: ...
    @overload
    def classify(self, texts: Sequence[str], **options: Any) -> list[Classified]: ...
    def classify(self, texts: str | Sequence[str], **options: Any) -> Classified | list[Classified]:
        """The label of each text; or several labels, or a number, as the model was trained.

        Args:
            texts: One text or several. Long ones are read through windows.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.

        Returns:
            For one text a `Classified`, for several a list of them.
        """
        several = [texts] if isinstance(texts, str) else list(texts)
        task = self.task_for(Classify)
        found = self.predict([TextItem(text) for text in several], task, **options)
        return found[0] if isinstance(texts, str) else found

    @overload
    def compare(self, pairs: TextPair, **options: Any) -> Classified: ...
    @overload
    def compare(self, pairs: Sequence[TextPair], **options: Any) -> list[Classified]: ...
    def compare(
        self, pairs: TextPair | Sequence[TextPair], **options: Any
    ) -> Classified | list[Classified]:
        """How the two texts of each pair are related.

        Args:
            pairs: Two texts, or a list of such pairs.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.

        Returns:
            For one pair a `Classified`, for several a list of them.
        """
        alone = isinstance(pairs, tuple) and len(pairs) == 2 and isinstance(pairs[0], str)
        several: list[Any] = [pairs] if alone else list(pairs)
        for number, pair in enumerate(several, start=1):
            if isinstance(pair, str) or len(pair) != 2:
                raise InputError(f"pair {number:,} is {pair!r}; it must be two texts; give two.")
        found = self.predict(
            [PairItem(*pair) for pair in several], self.task_for(Compare), **options
        )
        return found[0] if alone else found

    def tag(
        self, texts: str | Sequence[str | WordList], *, scheme: str | None = None, **options: Any
    ) -> Tagged | list[Tagged]:
        """The tag of every word, and the entities they make.

        Args:
            texts: One text or several; each may also be a list of words that are kept as they are.
            scheme: BIO, IOB1, BIOES, BMES or IO, to have tags written in another scheme than the
                model's.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.

        Returns:
            For one text a `Tagged`, for several a list of them.
        """
        several = [texts] if isinstance(texts, str) else list(texts)
        task = self.task_for(Tag)
        found = self.predict(list(map(words_item, several)), task, **options)
        if scheme is not None:
            found = [task.in_scheme(answer, scheme) for answer in found]
        return found[0] if isinstance(texts, str) else found

    @overload
    def answer(self, question: str, context: str, **options: Any) -> Answered: ...
    @overload
    def answer(
        self, question: Sequence[str], context: Sequence[str], **options: Any
    ) -> list[Answered]: ...
    def answer(
        self, question: str | Sequence[str], context: str | Sequence[str], **options: Any
    ) -> Answered | list[Answered]:
        """The stretch of a context that answers a question.

        Args:
            question: The question, or several.
            context: The text its answer stands in; one for each question.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.

        Returns:
            For one question an `Answered`, for several a list of them.
        """
        task = self.task_for(Answer)
        if isinstance(question, str) and isinstance(context, str):
            one: Answered = self.predict([QuestionItem(question, context)], task, **options)[0]
            return one
        if isinstance(question, str) or isinstance(context, str) or len(question) != len(context):
            raise InputError(
                "questions and contexts do not match; each question needs its context; give two "
                "texts, or two lists of equal length."
            )
        items = [QuestionItem(*pair) for pair in zip(question, context, strict=True)]
        return self.predict(items, task, **options)

    @overload
    def text_to_text(self, texts: str, **options: Any) -> Composed: ...
    @overload
    def text_to_text(
        self, texts: Sequence[str | SourceItem | ChatItem], **options: Any
    ) -> list[Composed]: ...
    def text_to_text(
        self, texts: str | Sequence[str | SourceItem | ChatItem], **options: Any
    ) -> Composed | list[Composed]:
        """What the model writes for each text.

        Args:
            texts: One text or several; each may also be a `SourceItem` or a `ChatItem`.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.

        Returns:
            For one text a `Composed`, for several a list of them.
        """
        task = self.task_for(TextToText)
        several: list[Any] = [texts] if isinstance(texts, str) else list(texts)
        items = [task.item_of(each) if isinstance(each, str) else each for each in several]
        found = self.predict(items, task, **options)
        return found[0] if isinstance(texts, str) else found

    def task_for(self, kind: type[TaskType]) -> TaskType:
        """The model's task as one of a kind: what it was trained for, or what its head can do.

        Raises:
            UnsupportedError: If it cannot do that.
        """
        task = self.task
        suited = None if task is None else task.suited_to(kind)
        if suited is None:
            suited = kind.without_training(self.model.blueprint)
        if suited is None:
            known = f"it can {task.ability}" if task else "it has no head for a task"
            raise UnsupportedError(
                f"{self.name} cannot {kind.ability}: {known}; use a checkpoint with such a head "
                f"({kind.architecture}), or train one with clozeworks finetune."
            )
        return suited  # type: ignore[return-value]

    def predict(
        self,
        items: Sequence[Any],
        task: AnyTask | None = None,
        **options: Unpack[BatchKeywords],
    ) -> list[Any]:
        """The answer of a task for every item.

        Args:
            items: `TextItem`, `PairItem`, `WordsItem`, `QuestionItem`, `SourceItem` or `ChatItem`,
                as the task wants them.
            task: What is asked; the model's own task if not given.
            options: `batch_tokens` (tokens per batch), `progress` (called with tokens done and
                tokens in all), `cancelled` (asked before each batch; True ends the work).
        """
        return answers(
            task or self._own_task(items),
            self.model,
            self.tokenizer,
            items,
            max_length=self.max_length,
            options=BatchOptions(**options),
        )

    def evaluate(
        self, items: Sequence[Any], *, intervals: bool = True, **options: Unpack[BatchKeywords]
    ) -> Measured:
        """How good the model is on labelled items, with intervals of 95 %."""
        task = self._own_task(items)
        return task.measure(items, self.predict(items, task, **options), intervals=intervals)

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


def words_item(text: str | WordList) -> WordsItem:
    """A text with its words, or words with a text around them."""
    if isinstance(text, str):
        return WordsItem.of_text(text)
    return WordsItem.of_words(text)
