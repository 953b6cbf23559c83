"""What there is to know about labelled data, for people: counts, lengths, and what looks odd."""

from typing import TYPE_CHECKING

from clozeworks.display.table import aligned
from clozeworks.wording import counted, visible

if TYPE_CHECKING:
    from clozeworks.data.labelled.oddities import Finding
    from clozeworks.data.labelled.report import Amount, DataPart, Report, Spread

BAR = 30
LONGEST_EXAMPLE = 120
MOST_LABELS = 40


def page(report: "Report") -> str:
    """The report as text."""
    parts = [("train", report.train)] + ([("dev", report.dev)] if report.dev else [])
    lines: list[str] = []
    for name, part in parts:
        lines += [*_part(name, part), ""]
    if report.findings:
        lines.append("worth a look")
        for finding in report.findings:
            lines += finding_lines(finding)
    else:
        lines.append("nothing looks odd")
    return "\n".join([*lines, *report.warnings])


def _part(name: str, part: "DataPart") -> list[str]:
    unit = {"tags": "sentence", "answers": "question"}.get(part.kind, "row")
    lines = [f"{name}: {counted(part.rows, unit)} from {', '.join(part.files)}"]
    lines += [f"  {part.description}"] if part.description else []
    for title, rows in (
        ("answers", part.answers),
        ({"tags": "tags of words", "targets": "tasks"}.get(part.kind, "labels"), part.labels),
        ("entities", part.types),
    ):
        if rows:
            lines += [f"  {title}", *_bars(rows)]
    spreads = [*part.lengths, *([part.numbers] if part.numbers else [])]
    lines += ["  sizes", *_spreads(spreads)]
    if part.over_window is not None:
        over = part.over_window
        lines.append(f"  {over.name}: {over.count:,} ({over.fraction:.1%})")
    if part.vocabulary is not None:
        fit = part.vocabulary
        lines.append(f"  unknown tokens: {fit.unknown:,} ({fit.fraction:.1%})")
    for title, amount, sentences in (
        ("cannot be used", part.bad, part.bad_rows),
        ("repaired", part.repaired, part.repaired_rows),
    ):
        if amount:
            lines.append(f"  {title}: {counted(amount, 'row')}")
            lines += [f"    {visible(sentence)}" for sentence in sentences]
            rest = amount - len(sentences)
            lines += [f"    and {rest:,} more"] if rest else []
    return lines


def _bars(amounts: "tuple[Amount, ...]") -> list[str]:
    highest = max(amount.fraction for amount in amounts)
    rows = []
    for amount in amounts[:MOST_LABELS]:
        bar = "█" * round(BAR * amount.fraction / highest) or "▏"
        rows.append((_short(amount.name), f"{amount.count:,}", f"{amount.fraction:>6.1%}", bar))
    rest = len(amounts) - len(rows)
    lines = [*aligned(rows, left=(0, 3)), *([f"and {rest:,} more"] if rest else [])]
    return [f"    {line}" for line in lines]


def _spreads(spreads: "list[Spread]") -> list[str]:
    rows = [["", "least", "mean", "median", "90 %", "99 %", "most"]]
    for spread in spreads:
        values = (spread.minimum, spread.median, spread.ninety, spread.ninety_nine, spread.maximum)
        least, *rest = (f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for value in values)
        rows.append([spread.what, least, f"{spread.mean:,.1f}", *rest])
    return [f"    {line}" for line in aligned(rows)]


def finding_lines(finding: "Finding") -> list[str]:
    """What looks odd, with examples."""
    lines = [f"  {counted(finding.count, 'row')}: {finding.what}"]
    for each in finding.examples:
        note = f" ({each.note})" if each.note else ""
        lines.append(f"    {each.source_location}: {_short(each.text)}{note}")
    return lines


def _short(text: str) -> str:
    shown = visible(text[: LONGEST_EXAMPLE + 1])
    return shown if len(text) <= LONGEST_EXAMPLE else shown[:LONGEST_EXAMPLE] + "…"
