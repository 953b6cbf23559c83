"""The terms of a text, as search by words and topics count them.

In small letters. What letters and digits hold together is a term; there is no stemming and no list
of words that are left out. Chinese and Japanese write no spaces: each character is a term, and so
is each pair of neighbours, which needs no dictionary (Nie et al. 2000: pairs are about as good as
words).
"""

import re
from functools import lru_cache
from hashlib import blake2b

from clozeworks.text.characters import IDEOGRAPHS

_UNSPACED = f"{IDEOGRAPHS}\u3040-\u30ff"
_TERM = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_FIRST_UNSPACED = "\u3040"


def terms_of(text: str) -> list[str]:
    """The terms of a text in their order."""
    terms: list[str] = []
    for run in _TERM.findall(text.lower()):
        if run[0] < _FIRST_UNSPACED:
            terms.append(run)
        else:
            terms += _unspaced(run)
    return terms


def _unspaced(run: str) -> list[str]:
    if not re.match(f"[{_UNSPACED}]", run):  # letters of a script with spaces, such as Korean
        return [run]
    return [*run, *(run[begin : begin + 2] for begin in range(len(run) - 1))]


@lru_cache(maxsize=1 << 18)
def term_hash(term: str) -> int:
    """A number for a term; two of ten million terms have the same with a chance of 1 in 300,000."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest())
