"""A labelled set that every Python brings along: the area of the library a docstring describes."""

from collections.abc import Mapping

from clozeworks.jobs.quickstart.python_documentation import documents
from clozeworks.tasks.classify import TextItem

# The areas, and the modules each is about, as the library's reference groups them.
_MODULES: Mapping[str, str] = {
    "text": "re string textwrap difflib stringprep codecs encodings _strptime",
    "types": "collections datetime _pydatetime calendar heapq bisect weakref copy pprint reprlib "
    "enum graphlib zoneinfo _collections_abc _weakrefset",
    "numbers": "decimal _pydecimal fractions random statistics numbers colorsys",
    "files": "pathlib os posixpath ntpath genericpath fileinput filecmp tempfile glob fnmatch "
    "linecache shutil io _pyio stat",
    "archives": "gzip bz2 lzma zipfile tarfile _compression zipapp",
    "storage": "pickle pickletools copyreg shelve dbm sqlite3 csv configparser plistlib json "
    "tomllib",
    "concurrency": "threading _threading_local multiprocessing concurrent subprocess sched queue "
    "asyncio selectors",
    "network": "socket ssl http urllib ftplib poplib imaplib smtplib nntplib telnetlib xmlrpc "
    "socketserver ipaddress wsgiref webbrowser cgi",
    "mail and markup": "email mailbox mimetypes html xml base64 quopri",
    "interfaces": "tkinter turtle curses cmd shlex argparse optparse getopt gettext locale getpass",
    "testing": "unittest doctest pdb bdb trace tracemalloc timeit cProfile profile pstats",
    "language": "ast symtable tokenize dis inspect importlib pkgutil typing contextlib abc "
    "dataclasses functools operator warnings traceback code codeop types runpy",
}
_AREA = {module: area for area, modules in _MODULES.items() for module in modules.split()}
# Of a long docstring the beginning says what it is about, and the model of the quick start has seen
# texts of 32 tokens only.
_LONGEST = 120


def area_items() -> list[TextItem]:
    """Beginnings of docstrings, each with its area; a text that stands in two areas is left out."""
    areas: dict[str, set[str]] = {}
    for name, text in documents():
        area = _AREA.get(name.partition(".")[0])
        if area is not None:
            areas.setdefault(_beginning(text), set()).add(area)
    return [TextItem(text, *found) for text, found in areas.items() if len(found) == 1]


def _beginning(text: str) -> str:
    """The first words of a docstring, white space made one."""
    words = " ".join(text.split())
    if len(words) <= _LONGEST:
        return words
    return words[:_LONGEST].rpartition(" ")[0] or words[:_LONGEST]
