"""Makes chunks of a corpus in worker processes.

Plain child processes that are talked to through pipes: they work whatever program started them,
also from a notebook or a script without a main guard, and end by themselves when it ends.
"""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import numpy as np

from clozeworks import errors
from clozeworks.data.corpus.chunks import ChunkMaker, ChunkSettings, CorpusChunk
from clozeworks.errors import ClozeworksError, InputError
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# Where this package is, also when it is not installed.
PACKAGE = str(Path(__file__).resolve().parents[3])


# Takes documents and gives their chunk later.
ChunkWorkers = Callable[[Sequence[str]], "Future[CorpusChunk]"]


@contextmanager
def chunk_workers(folder: Path, settings: ChunkSettings, count: int) -> Iterator[ChunkWorkers]:
    """Opens processes that make chunks, and closes them; with one the work is done right here."""
    if count <= 1:
        maker = ChunkMaker(Tokenizer.load(folder), settings)

        def make_here(documents: Sequence[str]) -> "Future[CorpusChunk]":
            future: Future[CorpusChunk] = Future()
            future.set_result(maker.make(documents))
            return future

        yield make_here
        return
    processes = _Processes(folder, settings, count)
    try:
        yield processes.submit
    finally:
        processes.close()


class _Processes:
    def __init__(self, folder: Path, settings: ChunkSettings, count: int) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([PACKAGE, *(path for path in sys.path if path)]),
            "RAYON_NUM_THREADS": "1",  # one thread each: the processes are the parallelism
            "OMP_NUM_THREADS": "1",
        }
        # Without -P, modules in the working folder would come before our own.
        command = [sys.executable, "-P", "-m", __name__, str(folder), json.dumps(asdict(settings))]
        self._pool = ThreadPoolExecutor(count)
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(count):
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                    process_group=0,  # so that Ctrl-C is for the program that started it alone
                )
                self._processes.append(process)
                self._idle.put(process)
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError):
                raise
            raise InputError(
                f"worker process {len(self._processes) + 1:,} of {count:,} could not be started "
                f"({error.strerror or error}); run the same command again with fewer --workers."
            ) from error

    def submit(self, documents: Sequence[str]) -> "Future[CorpusChunk]":
        return self._pool.submit(self._ask, list(documents))

    def _ask(self, documents: list[str]) -> CorpusChunk:
        process = self._idle.get()
        assert process.stdin is not None and process.stdout is not None
        try:
            _send(process.stdin, [text.encode() for text in documents], {})
            header, blocks = _receive(process.stdout)
        except (OSError, EOFError) as error:
            raise InputError(
                "a worker process ended while it made tokens, perhaps because memory ran out; "
                "run the same command again to go on, with fewer --workers."
            ) from error
        finally:
            self._idle.put(process)  # also one that ended: who asks it next must not wait forever
        if "error" in header:
            raise _rebuilt(header["kind"], header["error"])
        arrays = {
            name: np.frombuffer(block, dtype)
            for (name, dtype), block in zip(header["arrays"], blocks, strict=True)
        }
        return CorpusChunk(arrays, **header["counted"])

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()  # it holds nothing that could be lost
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()


def _kind(error: ClozeworksError) -> str:
    """The name of an error's class, or of the nearest one above it that `errors.py` has."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)


def _rebuilt(kind: str, sentence: str) -> ClozeworksError:
    """The error that a worker reported."""
    cls: type[ClozeworksError] = getattr(errors, kind)
    # Some kinds make their sentence themselves when they are called; this one is made already.
    error = cls.__new__(cls)
    error.args = (sentence,)
    return error


def _send(stream: IO[bytes], blocks: Sequence[bytes], header: dict[str, Any]) -> None:
    head = json.dumps({**header, "sizes": [len(block) for block in blocks]}).encode()
    stream.write(len(head).to_bytes(8, "little"))
    stream.write(head)
    for block in blocks:
        stream.write(block)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    head = json.loads(_exactly(stream, int.from_bytes(_exactly(stream, 8), "little")))
    return head, [_exactly(stream, size) for size in head.pop("sizes")]


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


def _work(folder: str, settings: str) -> None:
    """The life of a worker: documents in, a chunk out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program that started it decides
    gc.disable()  # nothing here is circular, and looking for it takes a fifth of the time
    # Trap: with PYTHONUNBUFFERED set, sys.stdout writes as much as the pipe takes and forgets the
    # rest. And whatever a library prints must not get between the answers.
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    maker = ChunkMaker(Tokenizer.load(folder), ChunkSettings(**json.loads(settings)))
    while True:
        try:
            _, blocks = _receive(questions)
        except EOFError:
            return
        try:
            chunk = maker.make([block.decode() for block in blocks])
        except MemoryError:
            return  # the other side says what may have happened
        except Exception as error:
            if not isinstance(error, ClozeworksError):
                error = ClozeworksError(f"making tokens failed: {type(error).__name__}: {error}")
            _send(answers, [], {"kind": _kind(error), "error": str(error)})
            continue
        counted = {key: value for key, value in vars(chunk).items() if key != "arrays"}
        names = [(name, array.dtype.str) for name, array in chunk.arrays.items()]
        _send(
            answers,
            [np.ascontiguousarray(array).tobytes() for array in chunk.arrays.values()],
            {"arrays": names, "counted": counted},
        )


if __name__ == "__main__":
    try:
        _work(sys.argv[1], sys.argv[2])
    except BrokenPipeError:
        os._exit(0)  # the program that started it is gone, and nobody waits for what is unsent
