"""Starts the process in which chat templates run, and asks it.

One process serves all templates and all threads of a program. It is started when the first chat is
written, and again after a limit ended it.
"""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from clozeworks.errors import ClozeworksError
from clozeworks.text.tokenizer.rendering import LENGTH
from clozeworks.wording import size_in_words

_START = "from clozeworks.text.tokenizer.rendering import main; main()"
# The environment may hold secrets; the time zone is what a template may know of it.
_KEPT = ("TZ", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

# The signal with which a process that runs too long ends itself; Windows has none.
_ALARM = int(getattr(signal, "SIGPROF", 0))


class TemplateFailure(Exception):  # noqa: N818 (it is caught and told in a sentence)
    """A template that could not be rendered; the text says why."""


class TemplateSyntax(TemplateFailure):
    """A template that is none."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class RenderProcess:
    """A child process that renders templates, one at a time.

    Args:
        seconds: How long a template may run.
        memory: Bytes of memory that the process may take.
        characters: Characters that a template may write.
    """

    def __init__(
        self, *, seconds: float = 10.0, memory: int = 512_000_000, characters: int = 10_000_000
    ) -> None:
        self.seconds, self.memory, self.characters = seconds, memory, characters
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def render(self, source: str, variables: Mapping[str, Any]) -> str:
        """What a template writes.

        Args:
            source: The template.
            variables: What it sees, as JSON can write it.

        Raises:
            TemplateSyntax: If it is not a template.
            TemplateFailure: If it fails, or asks for more than it may have.
        """
        try:
            request = json.dumps({"source": source, "variables": dict(variables)}).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise TemplateFailure(f"its turns are not plain data: {error}") from error
        with self._lock:
            reply = self._ask(request)
        if "text" in reply:
            return str(reply["text"])
        if "syntax" in reply:
            raise TemplateSyntax(reply["line"], reply["syntax"])
        limits = {
            "memory": f"it needs more than {size_in_words(self.memory)} of memory",
            "output": f"it writes more than {self.characters:,} characters",
        }
        raise TemplateFailure(limits.get(reply.get("limit", ""), reply.get("error", "")))

    def close(self) -> None:
        """Ends the process; it is started again if it is needed."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            _close_pipes(process)
            process.wait()

    def _ask(self, request: bytes) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = self._start()
        process = self._process
        clock = _Clock(self.seconds, process)
        reply: dict[str, Any] | None = None
        try:
            reply = _exchange(process, request)
        finally:
            clock.cancel()
            # An interruption would leave a reply behind, and memory that is full stays so.
            if reply is None or "limit" in reply:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
                self.close()
        if reply is not None:
            return reply
        if clock.has_struck or process.returncode == -_ALARM:
            return {"error": f"it runs longer than {self.seconds:g} seconds"}
        return {"error": f"its process ended with code {process.returncode}"}

    def _start(self) -> "subprocess.Popen[bytes]":
        limits = (str(self.seconds), str(self.memory), str(self.characters))
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        # The child finds this package and Jinja where we do, whatever the working directory.
        kept["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        try:
            return subprocess.Popen(
                [sys.executable, "-c", _START, *limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # so that nothing is written twice after a fork
                env=kept,
                start_new_session=os.name == "posix",  # Ctrl-C is for the parent
            )
        except OSError as error:
            raise ClozeworksError(
                f"the process that writes chats cannot be started ({error.strerror}); chat "
                "templates run in a process of their own; let the program start one."
            ) from error

    def _forget(self) -> None:
        """In a forked process: the child belongs to the parent, and so do its pipes."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # nobody here waits for it
            _close_pipes(process)


class _Clock:
    """Ends a process after some seconds, where it cannot do so itself."""

    def __init__(self, seconds: float, process: "subprocess.Popen[bytes]") -> None:
        self.has_struck = False
        self._process = process
        self._timer = None if _ALARM else threading.Timer(seconds, self._strike)
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _strike(self) -> None:
        self.has_struck = True
        self._process.kill()


def _exchange(process: "subprocess.Popen[bytes]", request: bytes) -> dict[str, Any] | None:
    """Sends a request and reads the reply; None if the process has ended."""
    assert process.stdin is not None and process.stdout is not None
    left = memoryview(LENGTH.pack(len(request)) + request)
    try:
        while left:
            left = left[process.stdin.write(left) :]
    except OSError:
        return None
    head = _read(process.stdout, LENGTH.size)
    body = None if head is None else _read(process.stdout, LENGTH.unpack(head)[0])
    return None if body is None else dict(json.loads(body))


def _read(pipe: IO[bytes], size: int) -> bytes | None:
    parts = []
    while size:
        part = pipe.read(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


RENDERER = RenderProcess()
