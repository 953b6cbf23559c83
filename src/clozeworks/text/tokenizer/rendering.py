"""The child process in which chat templates run: a template and a chat in, a text out.

The idea: a template is a program from somebody else. Jinja's sandbox decides what it can reach;
this process decides what it can take: memory, time and the size of what it writes. Each request is
a length and JSON on standard input, each reply the same on standard output. The process ends when
its input does, or when its parent is gone.

Trap: this file is all that the process loads besides Jinja; it must import nothing of this package.
"""

import json
import os
import select
import signal
import struct
import sys
from datetime import datetime
from functools import lru_cache
from typing import Any, BinaryIO

# How often, in seconds, an idle process looks whether its parent is still there.
_LOOK = 5.0
_LONGEST_REASON = 300
LENGTH = struct.Struct("<Q")


def main() -> None:
    """Answers requests; the arguments are seconds, bytes of memory and characters of output."""
    seconds, memory, characters = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    reading, writing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    parent = os.getppid()
    _compiled("{{ messages | tojson }}").render(messages=[])  # what is imported late is here now
    _limit(memory)
    sys.addaudithook(_refuse_events)
    while (request := _next(reading, parent)) is not None:
        if hasattr(signal, "setitimer"):  # its signal ends the process; waiting does not count
            signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            reply = _reply(request, characters)
            sent = json.dumps(reply).encode()
        except MemoryError:
            reply = {"limit": "memory"}
            sent = json.dumps(reply).encode()
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0)
        del request
        writing.write(LENGTH.pack(len(sent)) + sent)
        writing.flush()
        if "limit" in reply:  # what is left of the memory is not for the next one
            return


def _next(reading: BinaryIO, parent: int) -> dict[str, Any] | None:
    """The next request; None at the end."""
    # Trap: a process that was forked from the parent keeps the pipe open after the parent's death.
    if os.name == "posix":
        while not select.select([reading], [], [], _LOOK)[0]:
            if os.getppid() != parent:
                return None
    head = reading.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    body = reading.read(size)
    if len(body) < size:
        return None
    request: dict[str, Any] = json.loads(body)
    return request


def _reply(request: dict[str, Any], characters: int) -> dict[str, Any]:
    import jinja2

    try:
        parts, length = [], 0
        for part in _compiled(request["source"]).generate(**request["variables"]):
            parts.append(part)
            length += len(part)
            if length > characters:
                return {"limit": "output"}
        return {"text": "".join(parts)}
    except jinja2.TemplateSyntaxError as error:
        return {"line": error.lineno, "syntax": str(error.message)[:_LONGEST_REASON]}
    except MemoryError:
        raise
    except Exception as error:  # Somebody else's program may fail in any way.
        return {"error": (str(error) or type(error).__name__)[:_LONGEST_REASON]}


@lru_cache(maxsize=16)
def _compiled(source: str) -> Any:
    """A template that is ready to write."""
    from jinja2 import debug  # noqa: F401 (imported when a template fails, which is too late)
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Marks what the assistant says; it is written like everything else."""

        tags = {"generation"}  # noqa: RUF012 (so the library wants it)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda written: datetime.now().strftime(written)
    return environment.from_string(source)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    # Compat: Jinja's own filter writes <, > and & as escapes, for web pages.
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _limit(memory: int) -> None:
    """Limits the process; where the system knows no limits, the parent's clock is the only one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    if hasattr(signal, "setitimer"):  # a program may have been started without this signal
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, bound in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        try:
            resource.setrlimit(kind, (bound, bound))
        except (ValueError, OSError):  # macOS does not take all of them
            continue


def _refuse_events(event: str, arguments: tuple[Any, ...]) -> None:
    """No network, no other program, and no file but those of modules."""
    if event.startswith(("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn")):
        raise PermissionError(f"{event} is refused")
    if event.startswith(("os.system", "os.remove", "os.rename", "ctypes.")):
        raise PermissionError(f"{event} is refused")
    if event == "open" and not str(arguments[0]).endswith((".py", ".pyc", ".so", ".pyd")):
        raise PermissionError("files are refused")
