"""The output of commands: a file or standard output, kept if the work is stopped."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from clozeworks.errors import SET, ClozeworksError, InputError, OutputError, SettingError
from clozeworks.runtime.terminal import exact_output
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.storage.atomic import OtherPlace


def partial_file(out: Path) -> Path:
    """Where results are kept if the work is stopped: out.partial.jsonl for out.jsonl."""
    return out.with_name(f"{out.stem}.partial{out.suffix}")


def check_resume(out: Path | None) -> None:
    """Insists that there is something to go on with.

    Raises:
        SettingError: If there is not.
    """
    if out is None:
        rule = "there is no file to go on with"
        raise SettingError("--resume", SET, rule, "name it with --out, or leave --resume out")
    if not partial_file(out).is_file():
        rule = f"{partial_file(out)} does not exist, so nothing was begun"
        raise SettingError("--resume", SET, rule, "leave it out")


def other_input(out: Path, number: int, located: str) -> InputError:
    """The error for a partial file that was not made from the input."""
    return InputError(
        f"{partial_file(out)}, result {number:,} is not about {located}; it was made from another "
        "input; give that one, or begin again without --resume."
    )


# So many of the earlier results are computed again, to see that the model is the same.
CHECKED = 8


def check_same_model(out: Path, same: Sequence[bool], model: str) -> None:
    """Insists that a partial file holds what the model answers.

    Args:
        out: The file that was to be written.
        same: For each of its first results, whether the model answers the same now. Rounding may
            tip the balance for some of them.
        model: What messages call the model.

    Raises:
        InputError: If most of them are others.
    """
    if sum(same) * 2 < len(same):
        raise InputError(
            f"{partial_file(out)} does not hold what {model} answers; it was made with another "
            "model or other options; give those, or begin again without --resume."
        )


@contextmanager
def open_output(
    out: Path | None,
    what: str,
    done: Callable[[], str],
    *,
    mode: Literal["w", "wb"] = "w",
    overwrite: bool = True,
    lost: str = "",
    errors: bool = False,
    resumed: bool | None = None,
) -> Iterator[IO[Any]]:
    """Opens the output, a file that appears when it is complete.

    If the work is stopped, the results so far are kept beside it, in `partial_file`; a file that
    was there stays as it is.

    Args:
        out: A file; None for standard output.
        what: What the results are called.
        done: Returns how much was done, in words; an empty string if nothing was.
        mode: Whether text or bytes are written.
        overwrite: Whether a file that exists by the end is replaced.
        lost: What message to add about work that cannot be kept, if there is any.
        errors: Whether results are also kept if an error ends the work.
        resumed: Whether the results begin with those of the partial file, which then has no further
            use; None if the command cannot go on with such a file.
    """
    ends = (KeyboardInterrupt, SystemExit, *((ClozeworksError,) if errors else ()))
    stop: BaseException | None = None
    where = ""

    def instead() -> "OtherPlace | None":
        return None if out is None or stop is None else (partial_file(out), bool(resumed))

    try:
        with ExitStack() as stack:
            file: IO[Any] = exact_output(sys.stdout) if mode == "w" else sys.stdout.buffer
            if out is not None:
                from clozeworks.storage.atomic import atomic_file

                opened = atomic_file(out, mode, overwrite=overwrite, instead=instead)
                file = stack.enter_context(opened)
                where = f"{what} in {partial_file(out)}"
                if resumed is not None:
                    where += "; the same command with --resume goes on there"
            try:
                yield file
            except ends as error:
                if not done():  # nothing to keep
                    if lost and not isinstance(error, ClozeworksError):
                        error.add_note(f"Nothing was kept: {lost}.")
                    raise
                stop = error  # raised after the block, so that what was written is kept
    except OutputError as error:
        if stop is None:
            raise
        where = str(error).removesuffix(".")  # the file could not be put in place
    if stop is None:
        if out is not None and resumed:
            partial_file(out).unlink(missing_ok=True)
        return
    message = "; ".join(filter(None, (f"{done()} until then", lost, where)))
    if isinstance(stop, ClozeworksError):
        print(f"{message}.", file=sys.stderr)
    else:
        stop.add_note(f"{message}.")
    raise stop


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM wait for the end of the block, so that what is written is counted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for stop in waiting[:1]:
        signal.raise_signal(stop)


def report_unread(unread: Sequence[int], max_length: int | None) -> None:
    """Prints how many prompts were truncated at their beginning, by so many tokens each."""
    if count := sum(map(bool, unread)):
        print(
            f"The beginning of {counted(count, 'prompt')} was not read, "
            f"{counted(max(unread), 'token')} at most: {max_length or 0:,} are read with what "
            "follows.",
            file=sys.stderr,
        )
