"""What is inside a model, for a terminal: tables in which wide characters stay in line."""

from collections.abc import Sequence

import numpy as np

from clozeworks.display.table import aligned, cut
from clozeworks.look.attention import AttentionStream, AttentionView
from clozeworks.look.attributions import AttributionView
from clozeworks.look.contexts import ContextsView
from clozeworks.look.lens import LensView
from clozeworks.look.pieces import ShownPiece, TokenizedText

_BAR = 20
# Occurrences of a word that are listed; the others are in the JSON and on the page.
_LISTED = 40
_WIDE = 24


def attention_lines(view: AttentionView, head: int | None = None) -> list[str]:
    """Each head in a line; or, of one head of the last layer kept, what each token looks at."""
    lines: list[str] = []
    for stream in view.streams:
        if len(view.streams) > 1:
            lines += ["", f"{stream.kind}:"]
        lines += _heads(stream) if head is None else _of_head(stream, head)
    return [*lines, *_notes(view.notes())]


def _heads(stream: AttentionStream) -> list[str]:
    rows = [["layer", "head", "bits", "away", "first", "special", "before", "itself", "after"]]
    rows += [
        [
            str(each.layer), str(each.head), f"{each.entropy:.2f}", _shown(each.distance),
            *(_percent(value) for value in
              (each.first, each.separator, each.previous, each.same, each.next)),
        ]
        for each in stream.summaries
    ]  # fmt: skip
    return aligned(rows, left=())


def _of_head(stream: AttentionStream, head: int) -> list[str]:
    layer = stream.layers[-1]
    rows = [[f"layer {layer.layer}, head {head}", "looks at", "adds most of"]]
    for number, piece in enumerate(stream.queries):
        weights, added = layer.weights[head - 1, number], layer.added[head - 1, number]
        rows.append([_piece(piece), _best(stream.keys, weights), _best(stream.keys, added)])
    return aligned(rows, left=(0, 1, 2))


def _best(keys: Sequence[ShownPiece], values: "np.ndarray") -> str:
    order = np.argsort(-values, kind="stable")[:3]
    return "  ".join(f"{_piece(keys[each])} {values[each]:.2f}" for each in order if values[each])


def lens_lines(view: LensView) -> list[str]:
    """For each place, what each layer says there."""
    lines: list[str] = []
    for place in view.places:
        what = "what follows" if view.follows else "at"
        right = f", right: {place.right}" if place.right is not None else ""
        lines += ["", f"{what} {_piece(place.piece)} (token {place.position}){right}"]
        rows = [["layer", "rank", "p", "KL", "entropy", "words"]]
        for each in place.readings:
            words = "  ".join(f"{cut(word, _WIDE)} {p:.3f}" for word, p in each.words)
            rows.append(
                [
                    str(each.layer), "" if each.rank is None else f"{each.rank:,}",
                    "" if each.probability is None else f"{each.probability:.3f}",
                    f"{each.divergence:.2f}", f"{each.entropy:.2f}", words,
                ]
            )  # fmt: skip
        lines += aligned(rows, left=(5,))
    return [*lines, *_notes(view.notes())]


def attribution_lines(view: AttributionView) -> list[str]:
    """Each word in a line, with a bar to the right if it raises the target, else to the left."""
    lines = [
        f"{view.target}: {view.value:.3f}; with {view.baseline} in place of the words "
        f"{view.baseline_value:.3f}",
        "",
    ]
    words = [each for each in view.words if not each.special]
    most = max((abs(each.integrated) for each in words), default=0.0) or 1.0
    rows = [["word", "share", " " * (2 * _BAR + 1), "left out", "gradient x input"]]
    for each in words:
        length = round(abs(each.integrated) / most * _BAR)
        left = "-" * length if each.integrated < 0 else ""
        right = "+" * length if each.integrated > 0 else ""
        rows.append(
            [
                cut(each.text, _WIDE), f"{each.integrated:+.3f}",
                f"{left:>{_BAR}}|{right:<{_BAR}}",
                "" if each.left_out is None else f"{each.left_out:+.3f}",
                f"{each.gradient_input:+.3f}",
            ]
        )  # fmt: skip
    return [*lines, *aligned(rows), *_notes(view.notes())]


def contexts_lines(view: ContextsView) -> list[str]:
    """How alike the word is in each layer, then its places by cluster."""
    rows = [["layer", "self-similarity", "other words", "difference"]]
    rows += [
        [str(each.layer), f"{each.self_similarity:.3f}", _shown(each.baseline, 3),
         _shown(each.adjusted, 3)]
        for each in view.layers
    ]  # fmt: skip
    lines = [*aligned(rows, left=()), "", f"{view.word}, layer {view.layer}, {view.correction}:"]
    order = sorted(range(len(view.occurrences)), key=lambda n: view.occurrences[n].cluster)
    table = [["", "cluster", "sense", "context", "nearest"]]
    for number in order[:_LISTED]:
        each = view.occurrences[number]
        near, cosine = each.nearest[0]
        context = f"{each.before[-28:]}[{each.word}]{each.after[:28]}"
        table.append(
            [str(number + 1), str(each.cluster + 1), each.label or "", " ".join(context.split()),
             f"{near + 1} ({cosine:.2f})"]
        )  # fmt: skip
    if not any(each.label for each in view.occurrences):
        table = [[row[0], row[1], *row[3:]] for row in table]
    lines += aligned(table, left=(2, 3, 4))
    if len(order) > _LISTED:
        lines.append(f"… and {len(order) - _LISTED:,} more; see --json or --out.")
    return [*lines, *_notes(view.notes())]


def tokens_lines(view: TokenizedText) -> list[str]:
    """Each piece in a line."""
    record = view.to_dict()
    rows = [["", "piece", "entry", "id", "characters", "bytes"]]
    groups = [each.group for each in view.pieces]
    for number, (piece, shown) in enumerate(zip(view.pieces, record["pieces"], strict=True)):
        splits = groups.count(piece.group) > 1
        place = "special" if piece.special else f"{piece.begin}-{piece.end}"
        rows.append(
            [str(number), _piece(piece) + (" (a part of it)" if splits else ""), piece.token,
             f"{piece.id:,}", place, shown["bytes"]]
        )  # fmt: skip
    words = sum(not word.special for word in view.words)
    characters = sum(map(len, view.texts))
    summary = f"{len(view.pieces):,} tokens, {words:,} words, {characters:,} characters"
    return [*aligned(rows, left=(1, 2, 4, 5)), "", summary, *_notes(view.notes())]


def _piece(piece: ShownPiece) -> str:
    return cut(" ".join(piece.text.split()) or "␣", _WIDE)


def _shown(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _notes(sentences: Sequence[str]) -> list[str]:
    return ["", *sentences]
