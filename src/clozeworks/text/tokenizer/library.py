"""Calls into the Rust library `tokenizers`: whatever goes wrong there ends in a sentence.

Trap: the library raises bare `Exception`, and where it panics (a regular expression that gives up,
say) a `PanicException`, which is not even an `Exception`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from clozeworks.errors import TokenizerError
from clozeworks.wording import shortened

_RULE = "the tokenizers library must be able to read it; fetch the file again"
# Of a tokenizer that was read, and fails on a text.
FAILS = "it must be able to write every text; use another tokenizer, or leave the text out"


@contextmanager
def library(where: str, rule: str = _RULE) -> Iterator[None]:
    """Turns what the library raises into an error with a sentence.

    Args:
        where: What a message is about, such as a file.
        rule: What must be, and what to do.

    Raises:
        TokenizerError: If the library failed.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__module__ != "pyo3_runtime":
            raise
        raise TokenizerError(f"{where} cannot be used ({shortened(str(error))}); {rule}.") from None
