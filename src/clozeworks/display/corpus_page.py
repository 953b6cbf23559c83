"""What `clozeworks corpus show` prints."""

from itertools import zip_longest
from typing import Any

from clozeworks.data.corpus.corpus import Corpus, Split
from clozeworks.display.table import aligned
from clozeworks.rng import RandomStream, far_below
from clozeworks.wording import counted, visible

BAR = 40
LONGEST_SAMPLE = 200


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
    settings = [
        f"{name}={'+'.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in manifest["made"]["settings"].items()
        if value is not None and value is not False and value != []
    ]
    lines += ["", "made with: " + ", ".join(settings)]
    for what in ("sentence", "document"):
        lengths = [split[f"{what}_lengths"] for split in manifest["splits"].values()]
        total = [sum(column) for column in zip_longest(*lengths, fillvalue=0)]
        lines += ["", f"{what}s by number of tokens", *histogram(total)]
    if samples > 0:
        lines += ["", "samples"]
        for name in corpus.splits:
            lines += _samples(corpus, corpus.split(name), samples, seed)
    return "\n".join(lines)


def counts(manifest: dict[str, Any]) -> str:
    """A small table of what there is in each part."""
    splits, totals = list(manifest["splits"].values()), manifest["counts"]
    amounts = ("documents", "sentences", "tokens")
    rows = [["", *manifest["splits"]]]
    rows += [[what, *(f"{split[what]:,}" for split in splits)] for what in amounts]
    per_word = [split["tokens"] / max(1, split["counts"]["words"]) for split in splits]
    rows.append(["tokens per word", *(f"{value:.2f}" for value in per_word)])
    if manifest["tokenizer"].get("unknown") is not None:
        unknown = [split["counts"]["unknown"] / max(1, split["tokens"]) for split in splits]
        rows.append(["unknown tokens", *(f"{fraction:.3%}" for fraction in unknown)])
    rows.append(["shards", *(f"{len(split['shards']):,}" for split in splits)])
    lines = aligned(rows)
    read, dropped = totals.get("documents_read", 0), totals.get("duplicates_dropped", 0)
    empty = sum(split["counts"].get("without_tokens", 0) for split in splits)
    files = totals.get("files_read", 0)
    lines.append(
        f"{counted(read, 'document')} read from {counted(files, 'file')}, "
        f"{counted(dropped, 'exact duplicate')} dropped"
        + (f", {empty:,} without any token" if empty else "")
    )
    return "\n".join(lines)


def histogram(classes: list[int]) -> list[str]:
    """Bars for how many lengths have 0, 1, 2, ... binary digits."""
    used = [number for number, amount in enumerate(classes) if amount]
    if not used:
        return ["  none"]
    limit = max(classes)
    rows = []
    for number in range(used[0], used[-1] + 1):
        low, high = (1 << number) >> 1, (1 << number) - 1
        label = f"{low:,}" if low >= high else f"{low:,}-{high:,}"
        bar = "█" * round(BAR * classes[number] / limit) or ("▏" if classes[number] else "")
        rows.append((label, f"{classes[number]:,}", bar))
    return [f"  {line}" for line in aligned(rows, left=(2,))]


def _samples(corpus: Corpus, split: Split, limit: int, seed: int) -> list[str]:
    offsets = split.sentence_offsets
    lines = []
    for number in _chosen(split.sentences, limit, seed):
        tokens, _ = split.read(int(offsets[number]), int(offsets[number + 1]))
        text = visible(corpus.tokenizer.decode(tokens.tolist(), skip_special=False))
        if len(text) > LONGEST_SAMPLE:
            text = f"{text[:LONGEST_SAMPLE].rstrip()} … ({counted(len(tokens), 'token')})"
        lines.append(f"  {split.name} sentence {number:,}: {text}")
    return lines


def _chosen(amount: int, limit: int, seed: int) -> list[int]:
    """Some numbers below an amount, in order and each once."""
    if amount <= limit:
        return list(range(amount))
    drawn: set[int] = set()
    for number in far_below(
        RandomStream(seed, "samples").words(0, range(limit), 2), amount
    ).tolist():
        while number in drawn:
            number = (number + 1) % amount
        drawn.add(number)
    return sorted(drawn)
