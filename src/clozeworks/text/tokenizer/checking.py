"""Whether the files of a tokenizer folder fit together, said in sentences."""

from collections import Counter
from pathlib import Path

from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.styles import Style
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.tokenizer.vocabulary_files import repeated_lines
from clozeworks.wording import counted, shortened


def tokenizer_faults(folder: Path, style: Style | None = None) -> list[str]:
    """What is wrong with a tokenizer folder; empty if nothing is.

    Beyond what loading refuses (damaged files, two tokens with one id, files that contradict each
    other) these are ids without a token and pieces that stand twice: some published vocabularies
    have them, in others they are the trace of a damaged file.

    Args:
        folder: A folder with a tokenizer; that of a model, too.
        style: How the family writes text, for folders that do not say it.
    """
    try:
        tokenizer = Tokenizer.load(folder, style)
        _ = tokenizer.fingerprint  # it writes texts of all kinds
    except TokenizerError as error:
        return [str(error)]
    faults = []
    vocabulary = tokenizer.vocabulary()
    empty = sorted(set(range(tokenizer.size)) - {*vocabulary.values()})
    # A token that stands twice in vocab.txt has the id of its last line.
    repeated = repeated_lines(folder / "vocab.txt") if empty else ()
    empty = [index for index in empty if index not in repeated]
    if empty:
        faults.append(
            f"{folder}: {counted(len(empty), 'id has', 'ids have')} no token, the first is "
            f"{empty[0]:,}; a vocabulary has no gaps unless it was published so; compare it with "
            "the original."
        )
    pieces = tokenizer.state["model"]["vocab"]
    if isinstance(pieces, list):
        counts = Counter(piece for piece, _ in pieces)
        twice = next((piece for piece, count in counts.items() if count > 1), None)
        if twice is not None:
            faults.append(
                f"{folder}: the piece {shortened(repr(twice))} stands twice in the vocabulary; a "
                "piece has one id; fetch the files again."
            )
    return faults
