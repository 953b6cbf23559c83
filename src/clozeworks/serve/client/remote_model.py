"""`cw.connect`: a model that runs elsewhere, asked like one that is here.

    model = cw.connect("http://127.0.0.1:8000")
    model.classify(["a text", "another"])
    for chunk in model.stream("Once upon"):
        print(chunk.text, end="")

What is asked stands in `calls.py`, once for both clients; how it is sent in `transport.py`
and `async_transport.py`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self

from clozeworks.errors import SettingError
from clozeworks.serve.client.addresses import ServerAddress
from clozeworks.serve.client.async_transport import AsyncTransport
from clozeworks.serve.client.calls import ChunkReader, Conversation, RemoteCalls, Result
from clozeworks.serve.client.transport import RETRIES, TIMEOUT, Connecting, HttpTransport

if TYPE_CHECKING:
    from clozeworks.inference.streaming import StreamChunk

Arguments = ParamSpec("Arguments")
_Call = Callable[Concatenate[RemoteCalls, Arguments], Conversation[Result]]


def _sent(
    call: _Call[Arguments, Result],
) -> Callable[Concatenate["RemoteModel", Arguments], Result]:
    """A method that has a conversation and returns its result."""

    @wraps(call)
    def method(self: "RemoteModel", /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        return self._ask(call(self._calls, *args, **named))

    return method


def _awaited(
    call: _Call[Arguments, Result],
) -> Callable[Concatenate["AsyncRemoteModel", Arguments], Awaitable[Result]]:
    """The same as a coroutine."""

    @wraps(call)
    async def method(
        self: "AsyncRemoteModel", /, *args: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        return await self._ask(call(self._calls, *args, **named))

    return method


class RemoteModel:
    """A model of a server, with the methods and results of a `LanguageModel`.

    Several threads may use it. Methods that take one input or several return one result for one,
    and a list for several.

    Args:
        connecting: Where, as whom and with how much patience.
        model: The model that is asked; None for the only one that can do what is asked.
    """

    def __init__(self, connecting: Connecting, model: str | None) -> None:
        self.name = f"{connecting.address}{'' if model is None else f'#{model}'}"
        self._calls = RemoteCalls(str(connecting.address), model)
        self._transport = HttpTransport(connecting)

    models = _sent(RemoteCalls.models)
    described = _sent(RemoteCalls.described)
    task_for = _sent(RemoteCalls.task_for)
    predict = _sent(RemoteCalls.predict)
    classify = _sent(RemoteCalls.classify)
    compare = _sent(RemoteCalls.compare)
    tag = _sent(RemoteCalls.tag)
    answer = _sent(RemoteCalls.answer)
    text_to_text = _sent(RemoteCalls.text_to_text)
    rerank = _sent(RemoteCalls.rerank)
    embed = _sent(RemoteCalls.embed)
    similarity = _sent(RemoteCalls.similarity)
    search = _sent(RemoteCalls.search)
    fill = _sent(RemoteCalls.fill)
    score = _sent(RemoteCalls.score)
    generate = _sent(RemoteCalls.generate)

    def stream(
        self,
        prompts: str | Sequence[str],
        *,
        settings: Any = None,
        chat: bool = False,
        **named: Any,
    ) -> "RemoteStream":
        """Generates as `generate` does, and yields text as it comes.

        Prompts and settings are checked at once. Whoever stops before the end closes the iterator,
        and the server stops, too.
        """
        request, reader = self._calls.stream(prompts, settings=settings, chat=chat, **named)
        return RemoteStream(self._transport.events(request), reader)

    def close(self) -> None:
        """Closes connections that are kept for later; the model can still be asked."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteModel({self.name!r})"

    def _ask(self, conversation: Conversation[Result]) -> Result:
        try:
            request = next(conversation)
            while True:
                try:
                    answer = self._transport.send(request)
                except BaseException as error:
                    request = conversation.throw(error)
                else:
                    request = conversation.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result


class RemoteStream(Iterator["StreamChunk"]):
    """Text of a server as it comes; closing it ends the connection.

    Args:
        events: The events.
        reader: Reads them.
    """

    def __init__(self, events: Iterator[Any], reader: ChunkReader) -> None:
        self._events, self._reader = events, reader
        self._first: Any = next(events, None)  # complains at once if something is wrong

    def __next__(self) -> "StreamChunk":
        event, self._first = self._first or next(self._events, None), None
        if event is None:
            self._reader.ended()
            raise StopIteration
        chunk = self._reader.read(event)
        if chunk is None:
            self.close()
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Ends the connection; the server then stops writing."""
        closing = getattr(self._events, "close", None)
        if closing is not None:
            closing()
        self._reader.complete = True


class AsyncRemoteModel:
    """A model of a server for programs that await, with the methods of `RemoteModel`.

    It belongs to one event loop.

    Args:
        connecting: Where, as whom and with how much patience.
        model: The model that is asked; None for the only one that can do what is asked.
    """

    def __init__(self, connecting: Connecting, model: str | None) -> None:
        self.name = f"{connecting.address}{'' if model is None else f'#{model}'}"
        self._calls = RemoteCalls(str(connecting.address), model)
        self._transport = AsyncTransport(connecting)

    models = _awaited(RemoteCalls.models)
    described = _awaited(RemoteCalls.described)
    task_for = _awaited(RemoteCalls.task_for)
    predict = _awaited(RemoteCalls.predict)
    classify = _awaited(RemoteCalls.classify)
    compare = _awaited(RemoteCalls.compare)
    tag = _awaited(RemoteCalls.tag)
    answer = _awaited(RemoteCalls.answer)
    text_to_text = _awaited(RemoteCalls.text_to_text)
    rerank = _awaited(RemoteCalls.rerank)
    embed = _awaited(RemoteCalls.embed)
    similarity = _awaited(RemoteCalls.similarity)
    search = _awaited(RemoteCalls.search)
    fill = _awaited(RemoteCalls.fill)
    score = _awaited(RemoteCalls.score)
    generate = _awaited(RemoteCalls.generate)

    async def stream(
        self,
        prompts: str | Sequence[str],
        *,
        settings: Any = None,
        chat: bool = False,
        **named: Any,
    ) -> "AsyncGenerator[StreamChunk, None]":
        """Generates as `generate` does, and yields text as it comes: `async for chunk in …`.

        Whoever stops before the end closes the iterator (`aclose`), and the server stops, too.
        """
        request, reader = self._calls.stream(prompts, settings=settings, chat=chat, **named)
        async with aclosing(self._transport.events(request)) as events:
            async for event in events:
                chunk = reader.read(event)
                if chunk is None:
                    return
                yield chunk
        reader.ended()

    async def close(self) -> None:
        """Closes all connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncRemoteModel({self.name!r})"

    async def _ask(self, conversation: Conversation[Result]) -> Result:
        try:
            request = next(conversation)
            while True:
                try:
                    answer = await self._transport.send(request)
                except BaseException as error:
                    request = conversation.throw(error)
                else:
                    request = conversation.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result


def connect(
    address: str,
    *,
    model: str | None = None,
    key: str | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
) -> RemoteModel:
    """A model of a server that `clozeworks serve` runs; nothing is asked yet.

    Args:
        address: Where it is, such as `http://127.0.0.1:8000`; one of several models may be named
            after `#`: `http://127.0.0.1:8000#sentiment`.
        model: The same name as an argument; the only model that can do what is asked if none is
            named.
        key: The key, if the server wants one.
        timeout: Seconds without a byte after which an answer is given up.
        retries: How often a request is sent again if the server cannot be reached or is busy.

    Raises:
        SettingError: If the address is none, or another setting cannot be.
    """
    return RemoteModel(*_connecting(address, model, key, timeout, retries))


def connect_async(
    address: str,
    *,
    model: str | None = None,
    key: str | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
) -> AsyncRemoteModel:
    """The same for programs that await; its arguments are those of `connect`.

    Raises:
        MissingExtra: If httpx is not installed.
        SettingError: If the address is none, or another setting cannot be.
    """
    return AsyncRemoteModel(*_connecting(address, model, key, timeout, retries))


def _connecting(
    address: str, model: str | None, key: str | None, timeout: float, retries: int
) -> tuple[Connecting, str | None]:
    read = ServerAddress.read(address)
    if model is not None and read.model not in (None, model):
        raise SettingError("model", model, f"the address names {read.model}", "name one of them")
    return Connecting(read, key, timeout, retries), model or read.model
