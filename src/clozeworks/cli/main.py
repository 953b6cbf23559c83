"""The entry point: finds the command, turns errors into sentences and exit codes.

Nothing heavy is imported here. `clozeworks --help` reads the table below and nothing else.
"""

import errno
import gc
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import FileIO, TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from cyclopts import App

# What each command does, in a line; its module in `commands/`, or in a folder there, has the same
# name.
COMMANDS = {
    "quickstart": "train a small BERT on Python's own documentation",
    "fill": "fill in the words missing from a text",
    "embed": "turn texts into vectors",
    "index": "make texts searchable by what they mean and by their words",
    "search": "find the texts of an index that fit a query",
    "duplicates": "find texts that say the same",
    "topics": "sort texts into topics, with their typical words",
    "look": "look inside: attention, layers, attributions, words in contexts",
    "space": "see how the vectors of texts fill their space",
    "whiten": "make the space of a model's vectors more even, without training",
    "rerank": "put documents in order by how well they answer a query",
    "generate": "continue a text, or answer it",
    "score": "measure how likely texts are",
    "choose": "classify texts by likelihood, without training",
    "exposure": "measure the exposure bias of a model",
    "evaluate": "measure how good a model is on labelled data",
    "mine": "find hard negatives for pairs of texts",
    "show": "print a model's parts, sizes, files and papers",
    "new": "create a model folder with fresh weights",
    "verify": "check that a model, tokenizer, corpus, run or index is as it was saved",
    "convert": "write weights stored as pickles as safetensors, safely",
    "tokenizer": "train, extend or inspect a tokenizer",
    "corpus": "turn raw text into a corpus to train on",
    "data": "check and split labelled data",
    "recipes": "list the recipes that come along",
    "init": "write a recipe to start from",
    "pretrain": "train a model on a corpus; stop and resume at any time",
    "finetune": "fine-tune a model on labelled files",
    "open": "look at models, runs and data in a browser",
    "serve": "answer every task of models over HTTP",
    "runs": "list runs, their progress, and how to resume them",
    "probe": "what a frozen model's vectors are worth for a task",
    "env": "print versions and what this machine offers",
}

BAD_INPUT = 2
INTERRUPTED = 130
TERMINATED = 143
# What signals raised to stop the work, and when; for how many seconds further ones are ignored.
_stops: list[tuple[BaseException, float]] = []
_PATIENCE = 5.0
_HELP = {"-h", "--help"}
_BRACKET, _MOST_BRACKETS = re.compile(r"[\[{]"), 500
_PAUSE = 0.02  # seconds until a signal that nothing could be made of comes again
_NO_MEMORY = (
    "There is not enough memory for this; use smaller batches (--batch-tokens, or "
    "training.micro_batch_tokens in a recipe), shorter texts, or a smaller model."
)


class Terminated(SystemExit):
    """SIGTERM has arrived."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and leaves with its exit code."""
    code: str | int | None = None
    try:
        _prepare_output()
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # as for a job in the background
                signal.signal(number, _stop)
        sys.unraisablehook = _swallowed
        code = _code(list(sys.argv[1:] if arguments is None else arguments))
        _ignore_signals()
    except (KeyboardInterrupt, Terminated) as stop:  # before the command had begun, or after it
        code = _stopped(stop) if code is None else code
    finally:
        _ignore_signals()  # one more would only disturb the way out
        gc.freeze()  # else Python looks for garbage among all that torch has, which takes a while
    sys.exit(code)


def _code(arguments: list[str]) -> str | int | None:
    try:
        return run(arguments)
    except Terminated:
        raise
    except SystemExit as leave:
        return leave.code


def _prepare_output() -> None:
    from clozeworks.runtime.terminal import open_missing_streams

    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a text may hold what a terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    if isinstance(getattr(sys.stdout, "buffer", None), FileIO):
        # Trap: with PYTHONUNBUFFERED set, standard output writes as much as a pipe takes and
        # forgets the rest.
        sys.stdout = os.fdopen(
            sys.stdout.fileno(), "w", 1, sys.stdout.encoding, "backslashreplace", closefd=False
        )


def run(arguments: list[str]) -> int:
    """Runs one command; returns the exit code."""
    from clozeworks.runtime.terminal import visible_outputs

    # What is printed quotes what files hold: names, columns, tokens, templates.
    with visible_outputs():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    from clozeworks.errors import ClozeworksError, UnfinishedRun, is_out_of_memory

    try:
        code = _answer_or_stop(arguments)
        sys.stdout.flush()  # here, where a failure still becomes a sentence
        return code
    except UnfinishedRun as error:
        return _complain(str(UnfinishedRun(error.model, error.run, _way_on(error.run))))
    except ClozeworksError as error:
        return _complain(str(error))
    except (KeyboardInterrupt, Terminated) as stop:
        return _stopped(stop)
    except BrokenPipeError:
        _close_output()  # its reader has left, as `head` does
        return 0
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        if is_out_of_memory(error):
            return _complain(_NO_MEMORY)
        if not isinstance(error, OSError):
            raise
        if error.filename is None:
            _close_output()
        where = "The output" if error.filename is None else os.fsdecode(error.filename)
        why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
        return _complain(f"{where} cannot be used ({why}); fix this first.")


def _way_on(run: str) -> str | None:
    """What to do about an unfinished run; None if nothing is known about it."""
    from pathlib import Path

    from clozeworks.runs.state import read_state

    state = read_state(Path(run).expanduser())
    if state.status == "running":
        return "wait for it."
    return f"continue it with: {state.continue_command}" if state.continue_command else None


def _answer_or_stop(arguments: list[str]) -> int:
    try:
        return _answer(arguments)
    except Exception as error:
        # Trap: C code that calls Python may replace what a signal raised by an error of its own.
        if _stops:
            raise _stops[-1][0] from error
        raise


def _answer(arguments: list[str]) -> int:
    from clozeworks.errors import UnknownName

    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    name, *rest = arguments
    if name in ("-V", "--version"):
        from clozeworks import __version__

        print(f"clozeworks {__version__}")
        return 0
    if _is_nowhere():
        return _complain("The folder you are in was removed; change to another one first (cd).")
    if name not in COMMANDS and name not in (tasks := task_commands()):
        raise UnknownName("command", name, {**COMMANDS, **tasks})
    return _call(name, rest)


def _is_nowhere() -> bool:
    """Whether the working directory is gone, without which a library of torch ends the process."""
    try:
        os.getcwd()  # noqa: PTH109 (pathlib is imported later)
    except FileNotFoundError:
        return True
    return False


def task_commands() -> dict[str, str]:
    """The command of each task and what it does, read from `tasks/` without importing it."""
    import ast
    from pathlib import Path

    from clozeworks import tasks

    folders = [Path(folder) for folder in tasks.__path__]
    files = [
        path for folder in folders for path in (*folder.glob("*.py"), *folder.glob("*/task.py"))
    ]
    summaries = {}
    for path in sorted(files):
        if path.stem == "__init__" or (path.stem == "task" and path.parent in folders):
            continue
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        name = path.parent.name if path.name == "task.py" else path.stem
        summaries[name.replace("_", "-")] = text.split("\n")[0].rstrip(".")
    return summaries


def overview() -> str:
    """What `clozeworks --help` prints."""
    tasks = {name: what for name, what in task_commands().items() if name not in COMMANDS}
    width = max(map(len, (*COMMANDS, *tasks))) + 2
    lines = [
        "Clozeworks: from your own raw text to a trained language model.",
        "",
        "  clozeworks COMMAND …",
        "",
        *(f"  {name:<{width}}{what}" for name, what in COMMANDS.items()),
        "",
        "Predictions of a model that was trained for a task:",
        *(f"  {name:<{width}}{what}" for name, what in tasks.items()),
        "",
        "clozeworks COMMAND --help explains a command. MODEL is a folder or a hub name.",
    ]
    return "\n".join(lines)


def _call(name: str, arguments: list[str]) -> int:
    from cyclopts import CycloptsError

    from clozeworks.errors import InputError, SettingError, UnknownName

    # Trap: the parser takes what begins with a bracket for JSON, and a deep one is too much for it.
    for word in arguments:
        if word.lstrip()[:1] in ("[", "{") and len(_BRACKET.findall(word)) > _MOST_BRACKETS:
            raise InputError("an argument has too many brackets to be read; shorten it.")
    if name in COMMANDS:
        module = import_module(_module_of(name))
        app = module.make_app() if hasattr(module, "make_app") else module.app
        if hasattr(module, "check_words"):  # what options there are depends on the first word
            module.check_words(arguments)
    else:
        from clozeworks.cli.commands.predict import app_of

        app = app_of(name)
    app.suppress_keyboard_interrupt = False  # else the parser leaves without a word
    if _HELP & set(arguments):
        from rich.console import Console

        from clozeworks.display.help_text import HelpText
        from clozeworks.runtime.terminal import drawing_output

        app.help_formatter = HelpText(_optional_arguments(app, arguments))
        app.console = Console(file=drawing_output(sys.stdout))
    if "-" in arguments and "--" not in arguments:
        # Trap: the parser takes standard input's sign for an option, unless it comes after "--".
        arguments = [*(word for word in arguments if word != "-"), "--", "-"]
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        from clozeworks.cli.parsing import parser_sentence

        return _complain(parser_sentence(error, name))
    except (
        SettingError,
        UnknownName,
    ) as error:  # settings that are options are named as they are typed
        _, apps, _ = app.parse_commands(arguments)
        options = {
            argument.field_info.name: argument.name
            for argument in apps[-1].assemble_argument_collection()
            if argument.name.startswith("--")
        }
        return _complain(str(error.respelled(lambda setting: options.get(setting, setting))))
    return 0


def _module_of(name: str) -> str:
    """The module of a command."""
    from pathlib import Path

    folder = Path(__file__).parent
    path = next((folder / "commands").rglob(f"{name}.py")).relative_to(folder).with_suffix("")
    return ".".join(["clozeworks.cli", *path.parts])


def _optional_arguments(app: "App", arguments: list[str]) -> list[str]:
    """The arguments that a command may be typed without."""
    *_, explained = app.parse_commands([word for word in arguments if word not in _HELP])[1]
    if explained.default_command is None:
        return []
    return [
        argument.name
        for argument in explained.assemble_argument_collection()
        if argument.index is not None and not argument.required
    ]


def _complain(sentence: str) -> int:
    with suppress(OSError):  # who cannot be told still gets the code
        print(f"clozeworks: {sentence}", file=sys.stderr)
    return BAD_INPUT


def _stopped(stop: BaseException) -> int:
    # A command that can go on where it stopped has left a note about it.
    notes = getattr(stop, "__notes__", ["Nothing was left half-written."])
    with suppress(OSError):
        print(f"\nStopped. {notes[0]}", file=sys.stderr)
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def _close_output() -> None:
    # Python flushes once more at exit, and must not complain once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(number: int, frame: FrameType | None) -> None:
    # As an exception, so that temporary files are removed on the way out; a second signal that
    # follows at once would only disturb that.
    now = time.monotonic()
    if _stops and now - _stops[-1][1] < _PATIENCE:
        return
    if _imports(frame) and hasattr(signal, "setitimer"):
        # Trap: torch swallows an exception while it imports NumPy, and C++ code that imports may
        # abort; so the signal comes again, until no import is under way.
        _send_again(number)
        return
    stop = KeyboardInterrupt() if number == signal.SIGINT else Terminated(TERMINATED)
    _stops.append((stop, now))
    raise stop


def _swallowed(unraisable: "sys.UnraisableHookArgs") -> None:
    """Told of exceptions that Python ignores: what a finalizer or a weak reference's end raises."""
    stop = unraisable.exc_value
    if hasattr(signal, "setitimer") and any(stop is raised for raised, _ in _stops):
        _stops.clear()
        _send_again(signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    else:
        sys.__unraisablehook__(unraisable)


def _send_again(number: int) -> None:
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, _PAUSE)


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame belongs to an import that is under way."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _ignore_signals() -> None:
    # Trap: at its end Python gives signals it has handled back to the system, which then kills.
    for name in ("SIGINT", "SIGTERM", "SIGALRM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
