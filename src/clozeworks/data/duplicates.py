"""Tells documents that came before, in bounded memory."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from clozeworks.errors import OutputError


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

        def is_new(digest: bytes) -> bool:
            try:
                return database.execute(insert, (digest,)).rowcount == 1
            except sqlite3.Error as error:
                raise OutputError(
                    f"the list of documents that came before could not be written ({error}); it is "
                    "kept in the folder for temporary files; make room there, or name another "
                    "folder in SQLITE_TMPDIR, and run the same command again to go on."
                ) from error

        yield is_new
