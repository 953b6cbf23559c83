"""The output of commands: a file or standard output, kept if the work is stopped."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from clozeworks.errors import ClozeworksError, OutputError
from clozeworks.runtime.terminal import exact_output
from clozeworks.wording import counted


@contextmanager
def open_output(
    out: Path | None,
    what: str,
    done: Callable[[], str],
    *,
    overwrite: bool = True,
    lost: str = "",
    errors: bool = False,
) -> Iterator[IO[str]]:
    """Opens the output; if the work is stopped, results written so far are kept.

    Args:
        out: A file; None for standard output.
        what: What the results are called.
        done: Returns how much was done, in words; an empty string if nothing was.
        overwrite: Whether a file that exists by the end is replaced.
        lost: What message to add about work that cannot be kept, if there is any.
        errors: Whether results are also kept if an error ends the work.
    """
    ends = (KeyboardInterrupt, SystemExit, *((ClozeworksError,) if errors else ()))
    stop: BaseException | None = None
    where = f"{what} in {out}" if out is not None else ""
    try:
        with ExitStack() as stack:
            file: IO[str] = exact_output(sys.stdout)
            if out is not None:
                from clozeworks.storage.atomic import atomic_file

                file = stack.enter_context(atomic_file(out, "w", overwrite=overwrite))
            try:
                yield file
            except ends as error:
                if not done():  # a file that exists stays as it is
                    if lost and not isinstance(error, ClozeworksError):
                        error.add_note(f"Nothing was kept: {lost}.")
                    raise
                stop = error  # raised after the block, so that a file keeps what was written
    except OutputError as error:
        if stop is None:
            raise
        where = str(error).removesuffix(".")  # the file could not be put in place
    if stop is None:
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
