"""Tells documents that came before, in bounded memory."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from clozeworks.errors import OutputError

# Hashes that are kept in memory: some 60 MB.
MOST_IN_MEMORY = 500_000
_FIND = "SELECT 1 FROM seen WHERE hash = ?"
_ADD = "INSERT INTO seen VALUES (?)"


@contextmanager
def seen_before() -> Iterator[Callable[[bytes], bool]]:
    """Gives a function that says whether a hash comes for the first time.

    The newest hashes are in memory; when they become many, they go to a temporary database, which
    moves to the disk when it becomes large.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -65536")  # 64 MB
        database.execute("CREATE TABLE seen (hash BLOB PRIMARY KEY) WITHOUT ROWID")
        database.execute("BEGIN")
        newest: set[bytes] = set()
        older = 0

        def is_new(digest: bytes) -> bool:
            nonlocal older
            if digest in newest:
                return False
            try:
                if older and database.execute(_FIND, (digest,)).fetchone():
                    return False
                newest.add(digest)
                if len(newest) >= MOST_IN_MEMORY:
                    database.executemany(_ADD, [(known,) for known in newest])
                    older += len(newest)
                    newest.clear()
            except sqlite3.Error as error:
                raise OutputError(
                    f"the list of documents that came before could not be written ({error}); it is "
                    "kept in the folder for temporary files; make room there, or name another "
                    "folder in SQLITE_TMPDIR, and run the same command again to go on."
                ) from error
            return True

        yield is_new
