"""What a report says of labelled data: how much there is, of what, how long, and what looks odd."""

from collections.abc import Sequence

from clozeworks.data.labelled.oddities import Finding
from clozeworks.data.labelled.report import Amount, DataPart, Report, Spread
from clozeworks.reports.page import bullets, folded, paragraph, table

# Labels a table has at most, and characters of an example.
MOST_LABELS = 60
_LONGEST = 160


def data_section(report: Report) -> str:
    """Tables of the training data and the dev set beside each other."""
    parts = [("train", report.train)]
    if report.dev is not None:
        parts.append(("dev", report.dev))
    found = [_sizes(parts)]
    for title, column in (("labels", "labels"), ("entities", "types"), ("questions", "answers")):
        amounts = [(name, getattr(part, column)) for name, part in parts]
        if any(each for _, each in amounts):
            what = "tags of words" if title == "labels" and report.train.types else title
            found.append(_shares(what, amounts))
    found.append(_lengths(parts))
    found += [_bad(name, part) for name, part in parts if part.bad or part.mended]
    found.append(_findings(report.findings))
    if report.warnings:
        found.append(bullets(report.warnings))
    return "".join(found)


def in_both(report: Report) -> int:
    """How many texts of the dev set also stand in the training data."""
    return sum(finding.count for finding in report.findings if finding.name == "in both")


def _sizes(parts: Sequence[tuple[str, DataPart]]) -> str:
    rows = []
    for name, part in parts:
        over = f"{part.over_window.count:,}" if part.over_window is not None else ""
        rows.append([name, f"{part.rows:,}", over, f"{part.bad:,}", ", ".join(part.files)])
    limit = next((part.over_window.name for _, part in parts if part.over_window is not None), "")
    return table(["", "items", limit, "bad rows", "files"], rows)


def _shares(what: str, parts: Sequence[tuple[str, tuple[Amount, ...]]]) -> str:
    names = list(dict.fromkeys(amount.name for _, amounts in parts for amount in amounts))
    by_name = [{amount.name: amount for amount in amounts} for _, amounts in parts]
    rows = []
    for name in names[:MOST_LABELS]:
        row = [name]
        for known in by_name:
            amount = known.get(name)
            row += [f"{amount.count:,}", f"{amount.share:.1%}"] if amount else ["0", ""]
        rows.append(row)
    head = [what, *(column for name, _ in parts for column in (name, ""))]
    more = len(names) - MOST_LABELS
    rest = paragraph(f"And {more:,} more.", "quiet") if more > 0 else ""
    return table(head, rows, "numbers") + rest


def _lengths(parts: Sequence[tuple[str, DataPart]]) -> str:
    rows = []
    for name, part in parts:
        rows.append([name])
        spreads = [*part.lengths, *([part.numbers] if part.numbers else [])]
        rows += [[spread.what, *map(_size, _numbers(spread))] for spread in spreads]
    head = ["how long", "least", "mean", "median", "90 %", "99 %", "most"]
    return table(head, rows, "numbers")


def _numbers(spread: Spread) -> tuple[float, ...]:
    return (
        spread.least,
        spread.mean,
        spread.median,
        spread.ninety,
        spread.ninety_nine,
        spread.most,
    )


def _size(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _bad(name: str, part: DataPart) -> str:
    found = []
    for what, count, rows in (
        ("rows that cannot be used", part.bad, part.bad_rows),
        ("rows that were mended", part.mended, part.mended_rows),
    ):
        if count:
            found.append(folded(f"{name}: {count:,} {what}", bullets(list(map(_short, rows)))))
    return "".join(found)


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return paragraph("Nothing in the data looks odd.")
    rows: list[list[str]] = []
    for finding in findings:
        first, *more = [
            [example.place, _short(example.text), example.note] for example in finding.examples
        ] or [["", "", ""]]
        rows.append([finding.what, f"{finding.count:,}", *first])
        rows += [["", "", *each] for each in more]
    return table(["what looks odd", "rows", "such as", "text", ""], rows, "examples")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
