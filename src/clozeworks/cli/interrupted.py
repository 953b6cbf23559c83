"""Where results go, and what is kept of them if the work is stopped."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from clozeworks.errors import ClozeworksError, OutputError


@contextmanager
def keeping(
    out: Path | None,
    what: str,
    done: Callable[[], str],
    *,
    overwrite: bool = True,
    lost: str = "",
    errors: bool = False,
) -> Iterator[IO[str]]:
    """Opens what results are written to; if the work is stopped, those that are there stay.

    Args:
        out: A file; None for standard output.
        what: What the results are called.
        done: Says how much was done; nothing if nothing was.
        overwrite: Whether a file that is there by the end is replaced.
        lost: What is said of work that cannot be kept, if there is such work.
        errors: Whether results stay if an error ends the work, too.
    """
    ends = (KeyboardInterrupt, SystemExit, *((ClozeworksError,) if errors else ()))
    stop: BaseException | None = None
    where = f"{what} in {out}" if out is not None else ""
    try:
        with ExitStack() as stack:
            file: IO[str] = sys.stdout
            if out is not None:
                from clozeworks.storage.atomic import atomic_file

                file = stack.enter_context(atomic_file(out, "w", overwrite=overwrite))
            try:
                yield file
            except ends as error:
                if not done():  # a file that is there stays as it is
                    if lost and not isinstance(error, ClozeworksError):
                        error.add_note(f"Nothing was kept: {lost}.")
                    raise
                stop = error  # raised behind the block, so that a file keeps what was written
    except OutputError as error:
        if stop is None:
            raise
        where = str(error).removesuffix(".")  # the file could not take its place
    if stop is None:
        return
    said = "; ".join(filter(None, (f"{done()} until then", lost, where)))
    if isinstance(stop, ClozeworksError):
        print(f"{said}.", file=sys.stderr)
    else:
        stop.add_note(f"{said}.")
    raise stop
