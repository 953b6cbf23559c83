"""What `clozeworks corpus show` prints."""

from typing import Any

from clozeworks.core.chance import Chance, far_below
from clozeworks.data.corpus import Corpus, Split

BAR = 40


def page(corpus: Corpus, samples: int, seed: int) -> str:
    """The whole page."""
    manifest = corpus.manifest
    tokenizer = manifest["tokenizer"]
    lines = [
        f"{corpus.folder}",
        f"tokenizer: {tokenizer['kind']}, {tokenizer['size']:,} entries, "
        f"{tokenizer['fingerprint'].removeprefix('sha256:')[:12]}",
        "",
        counts(manifest),
    ]
    settings = manifest["made"]["settings"]
    changed = {name: value for name, value in settings.items() if value not in (None, False, [])}
    lines += ["", "made with: " + ", ".join(f"{name}={_word(v)}" for name, v in changed.items())]
    for what in ("sentence", "document"):
        total = [sum(column) for column in zip(*_lengths(manifest, what), strict=True)]
        lines += ["", f"{what}s by number of tokens", *histogram(total)]
    if samples > 0:
        lines += ["", "samples"]
        for name in corpus.splits:
            lines += _samples(corpus, corpus.split(name), samples, seed)
    return "\n".join(lines)


def counts(manifest: dict[str, Any]) -> str:
    """A small table of what there is in each part."""
    splits = manifest["splits"]
    head = ["", *splits]
    rows = [
        [what, *(f"{split[what]:,}" for split in splits.values())]
        for what in ("documents", "sentences", "tokens")
    ]
    rows.append(["tokens per word", *(_per_word(split) for split in splits.values())])
    if manifest["tokenizer"]["unknown"] is not None:
        rows.append(["unknown tokens", *(_unknown(split) for split in splits.values())])
    rows.append(["shards", *(f"{len(split['shards']):,}" for split in splits.values())])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]
    found = manifest["counts"]
    read, dropped = found.get("documents_read", 0), found.get("duplicates_dropped", 0)
    empty = sum(split["counts"].get("without_tokens", 0) for split in splits.values())
    files = found.get("files_read", 0)
    lines.append(
        f"{_count(read, 'document')} read from {_count(files, 'file')}, "
        f"{_count(dropped, 'exact duplicate')} dropped"
        + (f", {empty:,} without any token" if empty else "")
    )
    return "\n".join(lines)


def histogram(classes: list[int]) -> list[str]:
    """Bars for how many lengths have 0, 1, 2, ... binary digits."""
    used = [number for number, amount in enumerate(classes) if amount]
    if not used:
        return ["  none"]
    most = max(classes)
    lines = []
    for number in range(used[0], used[-1] + 1):
        low, high = (1 << number) >> 1, (1 << number) - 1
        label = f"{low:,}" if low >= high else f"{low:,}-{high:,}"
        bar = "█" * round(BAR * classes[number] / most)
        lines.append(f"  {label:>15}  {classes[number]:>12,}  {bar}".rstrip())
    return lines


def _lengths(manifest: dict[str, Any], what: str) -> list[list[int]]:
    return [split[f"{what}_lengths"] for split in manifest["splits"].values()]


def _per_word(split: dict[str, Any]) -> str:
    return f"{split['tokens'] / max(1, split['counts']['words']):.2f}"


def _unknown(split: dict[str, Any]) -> str:
    share = split["counts"]["unknown"] / max(1, split["tokens"])
    return f"{share:.3%}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _word(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _samples(corpus: Corpus, split: Split, count: int, seed: int) -> list[str]:
    offsets = split.sentence_offsets
    words = Chance(seed, "samples").words(0, range(min(count, split.sentences)), 2)
    lines = []
    for number in far_below(words, split.sentences):
        tokens, _ = split.read(int(offsets[number]), int(offsets[number + 1]))
        text = corpus.tokenizer.decode(tokens.tolist(), skip_special=False)
        lines.append(f"  {split.name} sentence {number:,}: {text}")
    return lines
