"""Tells documents that came before, in bounded memory."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager


@contextmanager
def seen_before() -> Iterator[Callable[[bytes], bool]]:
    """Gives a function that says whether a hash comes for the first time.

    The hashes are in a temporary database, which moves to the disk when they become many.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -65536")  # 64 MB
        database.execute("CREATE TABLE seen (hash BLOB PRIMARY KEY) WITHOUT ROWID")
        database.execute("BEGIN")
        insert = "INSERT OR IGNORE INTO seen VALUES (?)"
        yield lambda digest: database.execute(insert, (digest,)).rowcount == 1
