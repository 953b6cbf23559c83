"""What a report says of labelled data: how much there is, of what, how long, and what looks odd."""

from collections.abc import Sequence
from operator import attrgetter

from clozeworks.data.labelled.oddities import Finding
from clozeworks.data.labelled.report import Amount, DataPart, Report
from clozeworks.reports.render import Block, Bullets, Folded, Remark
from clozeworks.tasks.results.details import DetailTable, DetailText
from clozeworks.wording import shortened

# Labels a table has at most.
MOST_LABELS = 60
_numbers = attrgetter("minimum", "mean", "median", "ninety", "ninety_nine", "maximum")


def data_blocks(report: Report) -> list[Block]:
    """Tables of the training data and the dev set beside each other."""
    parts = [("train", report.train)]
    if report.dev is not None:
        parts.append(("dev", report.dev))
    blocks: list[Block] = [_sizes(parts)]
    for title, column in (("labels", "labels"), ("entities", "types"), ("questions", "answers")):
        amounts = [(name, getattr(part, column)) for name, part in parts]
        if any(each for _, each in amounts):
            what = "tags of words" if title == "labels" and report.train.types else title
            blocks += _shares(what, amounts)
    blocks.append(_lengths(parts))
    for name, part in parts:
        for what, count, rows in (
            ("unusable rows", part.bad, part.bad_rows),
            ("repaired rows", part.repaired, part.repaired_rows),
        ):
            if count:
                blocks.append(Folded(f"{name}: {count:,} {what}", [*map(shortened, rows)]))
    blocks.append(_findings(report.findings))
    if report.warnings:
        blocks.append(Bullets(report.warnings))
    return blocks


def _sizes(parts: Sequence[tuple[str, DataPart]]) -> DetailTable:
    rows = []
    for name, part in parts:
        over = f"{part.over_window.count:,}" if part.over_window is not None else ""
        rows.append((name, f"{part.rows:,}", over, f"{part.bad:,}", ", ".join(part.files)))
    limit = next((part.over_window.name for _, part in parts if part.over_window is not None), "")
    return DetailTable(("", "items", limit, "bad rows", "files"), tuple(rows), numbers=False)


def _shares(what: str, parts: Sequence[tuple[str, tuple[Amount, ...]]]) -> list[Block]:
    names = list(dict.fromkeys(amount.name for _, amounts in parts for amount in amounts))
    by_name = [{amount.name: amount for amount in amounts} for _, amounts in parts]
    rows = []
    for name in names[:MOST_LABELS]:
        row = [name]
        for known in by_name:
            amount = known.get(name)
            row += [f"{amount.count:,}", f"{amount.fraction:.1%}"] if amount else ["0", ""]
        rows.append(tuple(row))
    columns = (what, *(column for name, _ in parts for column in (name, "")))
    more = len(names) - MOST_LABELS
    table = DetailTable(columns, tuple(rows))
    return [table, Remark(f"And {more:,} more.")] if more > 0 else [table]


def _lengths(parts: Sequence[tuple[str, DataPart]]) -> DetailTable:
    rows: list[tuple[str, ...]] = []
    for name, part in parts:
        rows.append((name,))
        spreads = [*part.lengths, *([part.numbers] if part.numbers else [])]
        rows += [(spread.what, *map(_size, _numbers(spread))) for spread in spreads]
    columns = ("lengths", "min", "mean", "median", "90th percentile", "99th percentile", "max")
    return DetailTable(columns, tuple(rows))


def _size(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _findings(findings: Sequence[Finding]) -> Block:
    if not findings:
        return DetailText("Nothing in the data looks suspicious.")
    rows: list[tuple[str, ...]] = []
    for finding in findings:
        first, *more = [
            (example.source_location, example.text, example.note) for example in finding.examples
        ] or [("", "", "")]
        rows.append((finding.what, f"{finding.count:,}", *first))
        rows += [("", "", *each) for each in more]
    columns = ("what looks suspicious", "rows", "for example", "text", "")
    return DetailTable(columns, tuple(rows), numbers=False)
