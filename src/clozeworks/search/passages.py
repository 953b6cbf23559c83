"""Long texts as passages: sentences that stand together and fit into a model.

A passage is as many whole sentences as fit, one after the other; a sentence that does not fit alone
is cut between tokens. Passages do not overlap, and nothing but white space lies between them.
"""

from collections.abc import Sequence

from clozeworks.search.documents import PassageSpan
from clozeworks.text.sentences import split_sentences
from clozeworks.text.tokenizer.tokenizer import Tokenizer


def passages_of(texts: Sequence[str], tokenizer: Tokenizer, most: int) -> list[list[PassageSpan]]:
    """The passages of each text.

    Args:
        texts: None of them is blank.
        tokenizer: Counts the tokens.
        most: The most tokens of a passage, special ones not counted.
    """
    # A token has at least one byte, so short texts need no tokenizer.
    doubtful = [n for n, text in enumerate(texts) if len(text) * 4 > most and _bytes(text) > most]
    lengths = tokenizer.encode([texts[n] for n in doubtful], special=False)
    long = {n for n, encoded in zip(doubtful, lengths, strict=True) if len(encoded) > most}
    return [
        _cut(text, tokenizer, most) if number in long else [PassageSpan(0, len(text))]
        for number, text in enumerate(texts)
    ]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _cut(text: str, tokenizer: Tokenizer, most: int) -> list[PassageSpan]:
    spans, end = [], 0
    for sentence in split_sentences(text):
        begin = text.index(sentence, end)
        end = begin + len(sentence)
        spans.append(PassageSpan(begin, end))
    encoded = tokenizer.encode([text[begin:end] for begin, end in spans], special=False)
    passages: list[PassageSpan] = []
    room = 0
    for span, tokens in zip(spans, map(len, encoded), strict=True):
        if tokens > most:
            passages += _pieces(text, span, tokenizer, most)
            room = 0
        elif tokens > room:
            passages.append(span)
            room = most - tokens
        else:
            passages[-1] = PassageSpan(passages[-1].begin, span.end)
            room -= tokens
    return passages


def _pieces(text: str, span: PassageSpan, tokenizer: Tokenizer, most: int) -> list[PassageSpan]:
    """A sentence that is too long, cut between tokens."""
    (encoded,) = tokenizer.encode([text[span.begin : span.end]], special=False, offsets=True)
    assert encoded.offsets is not None
    offsets = [(begin, end) for begin, end in encoded.offsets if end > begin]
    pieces = [
        PassageSpan(span.begin + part[0][0], span.begin + part[-1][1])
        for part in (offsets[n : n + most] for n in range(0, len(offsets), most))
    ]
    return [piece for piece in pieces if text[piece.begin : piece.end].strip()] or [span]
