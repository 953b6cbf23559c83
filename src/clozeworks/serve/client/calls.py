"""What a client asks of a server, call by call, whoever sends it.

Each call is a conversation: a generator that yields requests, is sent the answers, and returns the
result that a model here would give. So the same words serve a client that waits and one that
awaits; neither the network nor a thread occurs in this file. Lists are sent in parts, so that no
request is too large or takes too long, and the parts' answers are joined.
"""

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from clozeworks.data.labelled.columns import named_columns
from clozeworks.data.labelled.in_memory import listed_texts, prediction_rows
from clozeworks.errors import (
    SET,
    ClozeworksError,
    InputError,
    SettingError,
    UnknownName,
    UnsupportedError,
)
from clozeworks.serve.client.transport import ServerError, ServerRequest

if TYPE_CHECKING:
    from clozeworks.checkpoints.tasks import AnyTask
    from clozeworks.inference.embed import Vectors
    from clozeworks.inference.similarity import Similarity
    from clozeworks.inference.streaming import StreamChunk, WrittenText
    from clozeworks.runtime.progress import Progress
    from clozeworks.search.documents import SearchHit
    from clozeworks.tasks.rerank.task import RankedDocument

Result = TypeVar("Result")
# A call: it yields requests and is sent what they were answered with.
Conversation = Generator[ServerRequest, Any, Result]
# How much is sent at a time: what a machine of two cores reads in a few seconds.
PART_INPUTS, PART_BYTES = 1_000, 256 << 10
# Texts that are written take longer.
PART_PROMPTS = 32
_NUMBERED = re.compile(r"(item|text|pair|prompt|question|query|row) ([\d,]+)(?=\W)")
_LOOP_OPTIONS = ("batch_tokens", "progress", "cancelled")


@dataclass(frozen=True)
class RemoteDescription:
    """What a server says of one of its models."""

    name: str
    abilities: tuple[str, ...]
    """What it can be asked, by the names of commands."""
    task: str | None
    """What it was trained for."""
    tasks: Mapping[str, Mapping[str, Any]]
    """The settings of each task that it can do."""
    dtype: str
    max_length: int | None
    pooling: str
    prompts: Mapping[str, str]
    default_prompt: str | None
    similarity: str | None
    """What its vectors are compared by, if its folder says so."""

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "RemoteDescription":
        """From what the server says."""
        prompts = record.get("prompts") or {}
        return cls(
            name=record["name"],
            abilities=tuple(record["abilities"]),
            task=record.get("task"),
            tasks=dict(record.get("tasks", {})),
            dtype=record.get("dtype", "float32"),
            max_length=record.get("max_length"),
            pooling=record.get("pooling", ""),
            prompts=dict(prompts.get("texts", {})),
            default_prompt=prompts.get("default"),
            similarity=record.get("similarity"),
        )


class RemoteCalls:
    """Everything that a server can be asked, as conversations.

    Args:
        address: The server, for messages.
        model: The model that is asked; None for the only one that can do it.
    """

    def __init__(self, address: str, model: str | None) -> None:
        self.address, self.model = address, model
        self._described: list[RemoteDescription] | None = None

    # What there is.

    def models(self) -> Conversation[list[RemoteDescription]]:
        """What the server has, and what each model can be asked."""
        if self._described is None:
            reply = yield ServerRequest("/v1/abilities")
            with self._reading("what it can do"):
                self._described = [RemoteDescription.from_dict(each) for each in reply["models"]]
        return self._described

    def described(self, ability: str | None = None) -> Conversation[RemoteDescription]:
        """The model that is asked.

        Args:
            ability: What it must be able to do.

        Raises:
            UnsupportedError: If no model can, or several and none was named.
        """
        every = yield from self.models()
        named = [each for each in every if self.model in (None, each.name)]
        able = [each for each in named if ability is None or ability in each.abilities]
        if len(able) == 1:
            return able[0]
        listed = ", ".join(f"{each.name} ({', '.join(each.abilities)})" for each in every)
        what = "" if ability is None else f" that can {ability}"
        several = "several models" if able else "no model"
        asked = "" if self.model is None else f" of the name {self.model!r}"
        raise UnsupportedError(
            f"{self.address} has {several}{asked}{what}: {listed or 'none'}; name one of them, as "
            f"in {self.address}#NAME."
        )

    def task_for(self, kind: Any) -> "Conversation[AnyTask]":
        """The task of a name or class, as the server's model can do it.

        Raises:
            UnsupportedError: If it cannot.
        """
        from clozeworks import config
        from clozeworks.tasks.task import Task

        name = _task_name(kind)
        described = yield from self.described(name)
        if name not in described.tasks:
            raise UnsupportedError(
                f"{described.name} of {self.address} cannot {name} items; it can "
                f"{', '.join(described.abilities)}."
            )
        with self._reading(f"the settings of {name}"):
            task: AnyTask = config.read(Task, dict(described.tasks[name]), "task")
        return task

    # Predictions of tasks.

    def predict(
        self,
        /,
        items: Any,
        task: Any = None,
        *,
        columns: Mapping[str, str | int] | str | None = None,
        **options: Any,
    ) -> Conversation[list[Any]]:
        """The prediction of a task for every item, as `LanguageModel.predict`.

        Args:
            items: Items, texts, tuples of texts, dicts, a frame, or the `Path` of a file.
            task: The task, or its name or class; what the model was trained for if not given. The
                settings of the server's model count.
            columns: Which column is what, such as `{"text": "review"}`; found if not given.
            options: `progress` (True for a bar, or a function of items done and all items),
                `cancelled` (called before each part), and the options of the task's command, such
                as `threshold` or `top`.

        Raises:
            InputError: If no item can be made of a row.
            UnsupportedError: If no model of the server can do it.
        """
        from clozeworks.tasks.task import Task, task_class

        rows = prediction_rows(items)
        name = (yield from self._own_task(rows)) if task is None else _task_name(task)
        kind = task_class(name)
        known = {*kind.command_options, "top"}
        asked = {each: options.pop(each) for each in known & options.keys()}
        if isinstance(task, Task):
            stated = yield from self.task_for(name)
            if task not in (stated, stated.configured(**asked)[0]):
                rule = "the model of the server has other settings, which cannot be changed here"
                raise SettingError("task", SET, rule, f"write task={name!r}")
        if name == "embed":
            raise UnsupportedError(
                "predict gives no vectors of a server's model; use embed, which does."
            )
        made = kind.items_from(rows, named_columns(columns, kind.item_type))
        inputs = _asked_items(made)
        locations = [
            getattr(item, "source_location", "") or f"item {n:,}" for n, item in enumerate(made, 1)
        ]
        outputs = yield from self._in_parts(
            f"/v1/{name}", inputs, asked, options, locations,
            part_inputs=PART_PROMPTS if kind.writes else PART_INPUTS,
        )  # fmt: skip
        pairs = zip(outputs, made, strict=True)
        with self._reading("its predictions"):
            return [kind.answer_from_dict(record, item) for record, item in pairs]

    def _own_task(self, rows: Sequence[Any]) -> Conversation[str]:
        """What the model was trained for, as such items want it."""
        from clozeworks.tasks.task import task_class

        described = yield from self.described()
        if described.task is None:
            raise UnsupportedError(
                f"{described.name} of {self.address} was not trained for a task; name one that it "
                f"can do: {', '.join(described.tasks)}."
            )
        first = rows[0] if rows else None
        fits = [each for each in described.tasks if task_class(each).item_type is type(first)]
        if isinstance(first, task_class(described.task).item_type) or not fits:
            return described.task
        return fits[0]

    def classify(self, /, texts: Any, **options: Any) -> Conversation[Any]:
        """The label of each text, as `LanguageModel.classify`; options as for `predict`."""
        from clozeworks.tasks.classify import Classify

        return (yield from self._one_or_all(Classify, texts, isinstance(texts, str), options))

    def compare(self, /, first: Any, second: Any = None, **options: Any) -> Conversation[Any]:
        """How two texts are related, as `LanguageModel.compare`; options as for `predict`."""
        from clozeworks.language_model.task_methods import paired
        from clozeworks.tasks.compare import Compare

        if second is None and not isinstance(first, str):
            alone = isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], str)
            return (yield from self._one_or_all(Compare, first, alone, options))
        pairs, alone = paired(first, second, "first text", "second text")
        return (yield from self._one_or_all(Compare, pairs, alone, options))

    def tag(self, /, texts: Any, *, scheme: str | None = None, **options: Any) -> Conversation[Any]:
        """The tag of every word, as `LanguageModel.tag`; options as for `predict`."""
        from clozeworks.tasks.tag import Tag
        from clozeworks.tasks.tagging.items import WordsItem

        items = [texts] if isinstance(texts, str) else prediction_rows(texts, "texts")
        items = [WordsItem.of_words(t) if isinstance(t, list | tuple) else t for t in items]
        chosen = {} if scheme is None else {"scheme": scheme}
        found = yield from self.predict(items, Tag, **chosen, **options)
        return found[0] if isinstance(texts, str) else found

    def answer(self, /, question: Any, context: Any = None, **options: Any) -> Conversation[Any]:
        """What answers a question, as `LanguageModel.answer`; options as for `predict`."""
        from clozeworks.language_model.task_methods import paired
        from clozeworks.tasks.answer import Answer

        if context is None and not isinstance(question, str):
            rows = prediction_rows(question, "question")
            if not any(isinstance(row, str) for row in rows):
                return (yield from self._one_or_all(Answer, rows, False, options))
        pairs, alone = paired(question, context, "question", "context")
        return (yield from self._one_or_all(Answer, pairs, alone, options))

    def text_to_text(self, /, texts: Any, **options: Any) -> Conversation[Any]:
        """What is written for each text, as `LanguageModel.text_to_text`."""
        from clozeworks.tasks.text_to_text.items import is_chat
        from clozeworks.tasks.text_to_text.task import TextToText

        if alone := is_chat(texts):
            texts = {"messages": texts}
        elif isinstance(texts, list | tuple):
            texts = [{"messages": each} if is_chat(each) else each for each in texts]
        alone = alone or isinstance(texts, str)
        return (yield from self._one_or_all(TextToText, texts, alone, options))

    def _one_or_all(self, task: Any, items: Any, alone: bool, options: Any) -> Conversation[Any]:
        found = yield from self.predict([items] if alone else items, task, **options)
        return found[0] if alone else found

    def rerank(
        self, /, query: str, documents: Sequence[str], *, top: int | None = None, **options: Any
    ) -> "Conversation[list[RankedDocument]]":
        """Documents by how well they answer a query, as `LanguageModel.rerank`."""
        from clozeworks.tasks.rerank.task import ranked

        if top is not None and top < 1:
            raise SettingError("top", top, "it must be at least 1")
        texts = listed_texts(documents, "documents")
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}

        def scores(part: Sequence[str]) -> Conversation[list[Any]]:
            # A field `top` says whose words these are.
            body = {"query": query, "documents": [*part], "top": len(part)}
            reply = yield self._request("/v1/rerank", body)
            found = self._outputs(reply, len(part))
            with self._reading("its scores"):
                by_index = {each["index"]: (each["score"], each["logit"]) for each in found}
                return [by_index[number] for number in range(len(part))]

        scored = yield from self._each_part([*places], scores, options)
        return ranked(texts, [scored[places[text]] for text in texts])[:top]

    # Vectors, and what is found with them.

    def embed(
        self,
        /,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        max_length: int | None = None,
        truncate: bool = False,
        source_locations: Sequence[str] | None = None,
        **options: Any,
    ) -> "Conversation[Vectors]":
        """One vector per text, as `LanguageModel.embed`; options as for `predict`."""
        several = listed_texts(texts)
        chosen = {
            "prompt": prompt,
            "pooling": pooling if pooling is None or isinstance(pooling, str) else [*pooling],
            "normalize": normalize,
            "truncate_dim": truncate_dim,
            "max_length": max_length,
            "truncate": truncate or None,
        }
        rows = yield from self._in_parts("/v1/embed", several, chosen, options, source_locations)
        with self._reading("its vectors"):
            vectors = np.array(rows, np.float32).reshape(len(several), -1 if several else 0)
        one: Vectors = vectors[0] if isinstance(texts, str) else vectors
        return one

    def similarity(
        self,
        /,
        first: Any,
        second: Any = None,
        *,
        kind: "Similarity | None" = None,
        **options: Any,
    ) -> "Conversation[Vectors]":
        """How similar texts or vectors are, as `LanguageModel.similarity`."""
        from clozeworks.inference.similarity import similarity

        if kind is None:
            described = yield from self.described("embed")
            chosen: str = described.similarity or "cosine"
        else:
            chosen = kind
        rows = yield from self._vectors(first, options)
        columns = rows if second is None else (yield from self._vectors(second, options))
        return similarity(rows, columns, chosen)

    def _vectors(self, given: Any, options: dict[str, Any]) -> "Conversation[Vectors]":
        array = given.detach().cpu().numpy() if hasattr(given, "detach") else given
        if isinstance(array, np.ndarray) and array.dtype.kind not in "OUS":
            return np.atleast_2d(array.astype(np.float32))
        return (yield from self.embed(listed_texts(given), **options))

    def search(
        self,
        /,
        query: str | Sequence[str],
        *,
        top: int = 10,
        by: str = "vectors",
        where: str | Sequence[str] | Mapping[str, Any] | None = None,
        rerank: str | None = None,
        exact: bool = False,
        source_locations: Sequence[str] | None = None,
        **options: Any,
    ) -> "Conversation[list[SearchHit] | list[list[SearchHit]]]":
        """What an index of the server holds for a query, as `Index.search`.

        `rerank` is the name of a model of the server.
        """
        from clozeworks.search.documents import SearchHit

        chosen = {"top": top, "by": by, "where": where, "rerank": rerank, "exact": exact or None}
        several = listed_texts(query, "query")
        found = yield from self._in_parts("/v1/search", several, chosen, options, source_locations)
        with self._reading("what it found"):
            results = [[SearchHit.from_dict(each) for each in hits] for hits in found]
        return results[0] if isinstance(query, str) else results

    # The vocabulary.

    def fill(
        self,
        /,
        texts: str | Sequence[str],
        *,
        top: int = 5,
        words: Sequence[str] | None = None,
        source_locations: Sequence[str] | None = None,
        **options: Any,
    ) -> Conversation[Any]:
        """Candidates for every gap, as `LanguageModel.fill`; options as for `predict`."""
        from clozeworks.inference.fill import Filled

        several = listed_texts(texts)
        chosen = {"top": top, "words": words}
        found = yield from self._in_parts("/v1/fill", several, chosen, options, source_locations)
        with self._reading("its candidates"):
            filled = [Filled.from_dict(each) for each in found]
        return filled[0] if isinstance(texts, str) else filled

    def score(
        self,
        /,
        texts: str | Sequence[str],
        continuations: str | Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        overlap: int | None = None,
        source_locations: Sequence[str] | None = None,
        **options: Any,
    ) -> Conversation[Any]:
        """How likely texts are, as `LanguageModel.score`; options as for `predict`."""
        from clozeworks.inference.likelihood import Scored

        several = listed_texts(texts)
        following: Sequence[Any] = [None] * len(several)
        if continuations is not None:
            following = listed_texts(continuations, "continuations")
        alike = isinstance(texts, str) == isinstance(continuations, str) or continuations is None
        if not alike or len(following) != len(several):
            raise InputError(
                "texts and continuations do not match; each text needs a continuation; give two "
                "texts, or two lists of equal length."
            )

        def scored(part: Sequence[tuple[str, str | None]]) -> Conversation[list[Any]]:
            body: dict[str, Any] = {"inputs": [text for text, _ in part]}
            if continuations is not None:
                body["continuations"] = [continued for _, continued in part]
            body |= {"max_length": max_length, "overlap": overlap}
            reply = yield self._request("/v1/score", body)
            return self._outputs(reply, len(part))

        rows = list(zip(several, following, strict=True))
        found = yield from self._each_part(rows, scored, options, source_locations)
        with self._reading("its scores"):
            scores = [Scored.from_dict(each) for each in found]
        return scores[0] if isinstance(texts, str) else scores

    def generate(
        self,
        /,
        prompts: str | Sequence[str],
        *,
        settings: Any = None,
        chat: bool = False,
        progress: "Progress | bool | None" = None,
        **named: Any,
    ) -> Conversation[Any]:
        """Continues each prompt, or answers it, as `LanguageModel.generate`."""
        chosen = _generation(settings, named)
        several = listed_texts(prompts, "prompts")
        fields = {**chosen, "chat": chat or None}
        found = yield from self._in_parts(
            "/v1/generate", several, fields, {"progress": progress}, None, part_inputs=PART_PROMPTS
        )
        with self._reading("its texts"):
            texts = [_written(each) for each in found]
        return texts[0] if isinstance(prompts, str) else texts

    def stream(
        self,
        /,
        prompts: str | Sequence[str],
        *,
        settings: Any = None,
        chat: bool = False,
        **named: Any,
    ) -> "tuple[ServerRequest, ChunkReader]":
        """The request for a stream of texts, and what reads its events."""
        several = listed_texts(prompts, "prompts")
        chosen = _generation(settings, named)
        body = {"inputs": several, "stream": True, "chat": chat or None, **chosen}
        return self._request("/v1/generate", body), ChunkReader(self.address, several)

    # How it is asked.

    def _request(self, path: str, body: Mapping[str, Any]) -> ServerRequest:
        return ServerRequest(path, {"model": self.model, **body})

    def _in_parts(
        self,
        path: str,
        inputs: Sequence[Any],
        fields: Mapping[str, Any],
        options: Mapping[str, Any],
        locations: Sequence[str] | None,
        *,
        part_inputs: int = PART_INPUTS,
    ) -> Conversation[list[Any]]:
        """An output for each input."""

        def asked(part: Sequence[Any]) -> Conversation[list[Any]]:
            reply = yield self._request(path, {**fields, "inputs": [*part]})
            return self._outputs(reply, len(part))

        return (yield from self._each_part(inputs, asked, options, locations, part_inputs))

    def _each_part(
        self,
        inputs: Sequence[Any],
        ask: Callable[[Sequence[Any]], Conversation[list[Any]]],
        options: Mapping[str, Any],
        locations: Sequence[str] | None = None,
        part_inputs: int = PART_INPUTS,
    ) -> Conversation[list[Any]]:
        """Asks part by part, shows progress, and names inputs as the caller knows them."""
        cancelled = _loop_options(options)
        outputs: list[Any] = []
        with _progress(options.get("progress")) as progress:
            for part in parts(inputs, part_inputs):
                if cancelled is not None and cancelled():
                    from clozeworks.inference.loop import Cancelled

                    raise Cancelled("the work was cancelled.")
                try:
                    outputs += yield from ask(part)
                except InputError as error:
                    sentence = relocated(str(error), len(outputs), locations)
                    raise InputError(sentence) from error
                if progress is not None:
                    progress(len(outputs), len(inputs))
        return outputs

    def _outputs(self, reply: Any, count: int) -> list[Any]:
        outputs = reply.get("outputs") if isinstance(reply, Mapping) else None
        if not isinstance(outputs, list) or len(outputs) != count:
            raise ServerError(
                f"{self.address} did not send an output for each of {count:,} inputs; check that "
                "it is a clozeworks server of the same version."
            )
        return outputs

    def _reading(self, what: str) -> "ReadingAnswer":
        return ReadingAnswer(self.address, what)


class ReadingAnswer:
    """Within the block, what does not fit is a sentence about the server.

    Args:
        address: The server.
        what: What is read.
    """

    def __init__(self, address: str, what: str) -> None:
        self._address, self._what = address, what

    def __enter__(self) -> None:
        """Begins to read."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        """Ends the block."""
        wrong = KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError
        if isinstance(error, wrong):
            raise ServerError(
                f"{self._address} sent {self._what} in another form ({error!r:.200}); check that "
                "it is a clozeworks server of the same version."
            ) from error


class ChunkReader:
    """Reads the events of a stream of texts.

    Args:
        address: The server, for messages.
        prompts: What is continued.
    """

    def __init__(self, address: str, prompts: Sequence[str]) -> None:
        self._address, self._prompts = address, prompts
        self._texts: dict[tuple[int, int], list[str]] = {}
        self._ended: dict[tuple[int, int], WrittenText] = {}
        self.complete = False
        """Whether the last event has come."""

    def read(self, event: Mapping[str, Any]) -> "StreamChunk | None":
        """What an event says; None for the last one, which has no text."""
        from clozeworks.inference.streaming import StreamChunk, WrittenText

        with ReadingAnswer(self._address, "an event"):
            if "usage" in event:
                self.complete = True
                return None
            prompt, number, text = event["prompt"], event["number"], event["text"]
            key = prompt, number
            self._texts.setdefault(key, []).append(str(text))
            whole = WrittenText.from_dict(event["whole"]) if event.get("whole") else None
            if whole is not None:
                self._ended[key] = whole
            return StreamChunk(prompt, number, text, partial(self._so_far, prompt, number), whole)

    def ended(self) -> None:
        """Complains if the stream ended before all had come.

        Raises:
            ServerError: If it did.
        """
        if not self.complete:
            raise ServerError(
                f"{self._address} ended the stream before all texts had come; ask again."
            )

    def _so_far(self, prompt: int, number: int) -> "WrittenText":
        """The text until now; its tokens are known when it has ended."""
        from clozeworks.inference.streaming import WrittenText

        key = prompt, number
        text = "".join(self._texts[key])
        unfinished = WrittenText(self._prompts[prompt], text, (), None, 0.0)
        return self._ended.get(key, unfinished)


def parts(
    inputs: Sequence[Any], most: int = PART_INPUTS, most_bytes: int = PART_BYTES
) -> Iterator[list[Any]]:
    """Inputs in parts that are not too large, in their order; a large input is a part by itself."""
    part: list[Any] = []
    size = 0
    for each in inputs:
        own = _size(each)
        if part and (len(part) >= most or size + own > most_bytes):
            yield part
            part, size = [], 0
        part.append(each)
        size += own
    if part:
        yield part


def _size(given: Any) -> int:
    if isinstance(given, str):
        return len(given.encode("utf-8", "surrogatepass"))
    return len(json.dumps(given, default=str, ensure_ascii=True))


def relocated(sentence: str, before: int, locations: Sequence[str] | None) -> str:
    """A sentence about an input of a part, with its number among all, or where it came from."""
    match = _NUMBERED.match(sentence)
    if match is None:
        return sentence
    number = before + int(match[2].replace(",", ""))
    if locations is not None and 0 < number <= len(locations):
        where = locations[number - 1]
    else:
        where = f"{match[1]} {number:,}"
    return where + sentence[match.end() :]


def _loop_options(options: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Checks what a loop may be told here; returns what says that the work is not wanted."""
    for name in options:
        if name not in _LOOP_OPTIONS:
            raise UnknownName("An argument", name, ("progress", "cancelled"))
    if options.get("batch_tokens") is not None:
        rule = "a server makes its own batches"
        raise SettingError("batch_tokens", options["batch_tokens"], rule, "leave it out")
    cancelled: Callable[[], bool] | None = options.get("cancelled")
    if cancelled is not None and not callable(cancelled):
        raise SettingError("cancelled", cancelled, "it must be a function without arguments")
    return cancelled


def _progress(asked: Any) -> "AbstractContextManager[Progress | None]":
    if asked is None or asked is False:
        return nullcontext()
    from clozeworks.language_model.batching import shown_progress

    return shown_progress(asked, "inputs")


def _task_name(task: Any) -> str:
    """The name of a task's command."""
    from clozeworks import registry
    from clozeworks.tasks.task import command_name, named_class

    return command_name(registry.kind(named_class(task)))


def _asked_items(items: Sequence[Any]) -> list[Any]:
    """Items as a server takes them: a text alone as it is.

    Raises:
        ClozeworksError: If one cannot be sent.
    """
    asked: list[Any] = []
    for number, item in enumerate(items, start=1):
        try:
            cells = item.asked()
        except ClozeworksError as error:
            raise InputError(f"item {number:,}: {error}") from error
        (name, text), *others = cells.items()
        alone = not others and item.text_names == (name,) and isinstance(text, str)
        asked.append(text if alone else cells)
    return asked


def _generation(settings: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Generation settings by name, checked as here.

    Raises:
        SettingError: If they contradict each other.
    """
    from clozeworks.generate.settings import Generation

    if settings is None:
        Generation.of(**named)
        return named
    if named:
        rule = f"`{min(named)}` is given, too"
        raise SettingError("settings", SET, rule, "use only one of the two ways")
    return settings_by_name(settings)


def settings_by_name(settings: Any) -> dict[str, Any]:
    """The settings of a `Generation` as a person names them, without the usual ones."""
    from clozeworks.generate.settings import Generation

    usual, found = Generation(), dict[str, Any]()
    for name in settings.__dataclass_fields__:
        value = getattr(settings, name)
        if value == getattr(usual, name):
            continue
        if is_dataclass(value) and not isinstance(value, type):
            plain = getattr(usual, name)
            before = {} if plain is None else asdict(plain)
            fields = asdict(value)
            found |= {key: each for key, each in fields.items() if before.get(key) != each}
        else:
            found[name] = value
    if settings.drawing is not None:
        found["sample"] = True
    if settings.beams is not None:
        found |= {name: each for name, each in asdict(settings.beams).items() if each is not None}
    return found


def _written(record: Any) -> Any:
    """A text, or those of one prompt."""
    from clozeworks.inference.streaming import WrittenText

    if isinstance(record, list):
        return [WrittenText.from_dict(each) for each in record]
    return WrittenText.from_dict(record)
