"""Says what is wrong with a text that cannot be encoded, and where it came from."""

from collections.abc import Sequence

from clozeworks.errors import InputError


def location_of(number: int, source_locations: Sequence[str] | None) -> str:
    """What a message calls a text, counted from 0: where it came from, or its number."""
    return f"text {number + 1:,}" if source_locations is None else source_locations[number]


def check_lengths(
    lengths: Sequence[int], max_length: int, source_locations: Sequence[str] | None, advice: str
) -> None:
    """Insists that no text has too many tokens; `advice` says what to do about one that has.

    Raises:
        InputError: If a text is too long; the message names the longest.
    """
    long = sum(length > max_length for length in lengths)
    if long:
        worst = max(range(len(lengths)), key=lengths.__getitem__)
        others = f" ({long:,} of {len(lengths):,} texts are too long)" if long > 1 else ""
        raise InputError(
            f"{location_of(worst, source_locations)} has {lengths[worst]:,} tokens; at most "
            f"{max_length:,} are allowed{others}; {advice}."
        )


def check_texts(what: str, texts: Sequence[str]) -> None:
    """Insists on a list of str; `what` is what messages call one of them.

    Raises:
        InputError: If one of them is not a str, or all of them are one str.
    """
    if isinstance(texts, str):
        raise InputError(
            f"the {what}s are one str; they must be a list of str; put it in a list: [{what}]."
        )
    for number, text in enumerate(texts, 1):
        check_type(what, number, text)


def check_type(what: str, number: int, text: object) -> None:
    """Insists on a str, which messages call `what` and its number, from 1.

    Raises:
        InputError: If `text` is not a str.
    """
    if not isinstance(text, str):
        raise InputError(
            f"{what} {number:,} is {text!r:.60} of type {type(text).__name__}; texts must be "
            "str; convert or drop it."
        )


def check_unicode(what: str, number: int, text: str) -> None:
    """Insists on valid Unicode, of a text that messages call `what` and its number, from 1.

    Raises:
        InputError: If the text has half of a surrogate pair.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} {number:,} has a lone surrogate (U+{ord(text[error.start]):04X}) at "
            f"character {error.start + 1:,}; it is not valid Unicode; remove it or repair the "
            "file's encoding."
        ) from None
