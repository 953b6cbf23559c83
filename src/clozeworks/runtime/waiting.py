"""Waiting for what other threads do, whatever signals come."""

from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import Any


def outlast(tasks: Iterable[Future[Any]]) -> None:
    """Waits for the end of tasks, whatever interrupts it; that is raised afterwards.

    Trap: never wait by joining a thread where a signal may come. A join that is interrupted takes
    the thread for ended, and nobody waits for it again.
    """
    # Trap: nobody tells of the end of a task that was cancelled before it began.
    tasks = [task for task in tasks if not task.cancelled()]
    interruption: BaseException | None = None
    while True:
        try:
            wait(tasks)
            break
        except BaseException as error:
            interruption = error
    if interruption is not None:
        raise interruption
