"""Finds hard negatives for pairs of texts with a sentence model, and writes rows to learn from."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array
from clozeworks.data.chunks import in_chunks
from clozeworks.data.files.texts import read_texts
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.in_memory import DataSource, InMemory, source_name
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.data.retrieval.folder import is_collection, read_collection
from clozeworks.errors import InputError
from clozeworks.language_model.evaluated import Tell
from clozeworks.language_model.model import LanguageModel
from clozeworks.language_model.pair_scores import pair_scores
from clozeworks.language_model.retrieval import DOCUMENT_PROMPTS, QUERY_PROMPTS, prompt_for
from clozeworks.runtime.progress import Progress
from clozeworks.search.mining import MinedAnchor, MiningReport, MiningRules, mine
from clozeworks.storage.atomic import atomic_file
from clozeworks.tasks.embed.items import KINDS, EmbedItem
from clozeworks.wording import counted

RowLayout = Literal["triplets", "tuples"]
MINED_SUFFIXES = (".jsonl", ".tsv")
# Judgements to learn from, the likeliest first.
_SPLITS = ("train", "dev", "validation", "test")


@dataclass
class MiningTexts:
    """Anchors, the texts to choose from, and which are right for which; each text once."""

    anchors: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    positives: list[list[int]] = field(default_factory=list)
    """The numbers of the texts that are right for each anchor."""
    locations: dict[str, str] = field(default_factory=dict)
    """Where each text was read first."""

    def add(self, text: str, location: str) -> int:
        """The number of a text to choose from."""
        self.locations.setdefault(text, location)
        return self.texts.setdefault(text, len(self.texts))

    def add_positive(self, anchor: str, positive: str, location: str) -> None:
        """Notes that a text is right for an anchor."""
        self.locations.setdefault(anchor, location)
        number = self.anchors.setdefault(anchor, len(self.anchors))
        if number == len(self.positives):
            self.positives.append([])
        right = self.add(positive, location)
        if right not in self.positives[number]:
            self.positives[number].append(right)

    @property
    def same(self) -> list[int | None]:
        """The number of the text that equals each anchor."""
        return [self.texts.get(anchor) for anchor in self.anchors]


@dataclass(frozen=True)
class Mined:
    """What mining made."""

    rows: int
    """How many rows were written."""
    left_out: int
    """Pairs without enough negatives for a row."""
    report: MiningReport


def mining_texts(
    files: Sequence[DataSource],
    corpus: Sequence[Path],
    reading: Reading,
    bad: BadRows,
    tell: Tell = lambda sentence: None,
) -> MiningTexts:
    """Reads what hard negatives are looked for: pairs, triplets, judged pairs, or a collection.

    Args:
        files: Files of rows, or what a program holds in place of them; or a folder in BEIR's
            layout, or one of its files of judgements.
        corpus: Files of further texts to choose from, one per line or row.
        reading: How files of rows are read.
        bad: Collects rows that cannot be used.
        tell: Told what was found out about the data.

    Raises:
        InputError: If nothing is said of which texts belong together.
    """
    found = MiningTexts()
    first = files[0] if len(files) == 1 and not isinstance(files[0], InMemory) else None
    if first is not None and is_collection(Path(first)):
        _add_collection(found, Path(first), bad, tell)
    else:
        _add_rows(found, files, reading, bad, tell)
    for path in corpus:
        further = read_texts(path)
        for text, location in zip(further.texts, further.source_locations, strict=True):
            found.add(text.strip(), location)
    if not found.anchors:
        raise InputError(
            f"{', '.join(map(source_name, files))}: no row says that two texts belong together; "
            "there must be positives to find negatives for; check the labels."
        )
    return found


def _add_rows(
    found: MiningTexts, files: Sequence[DataSource], reading: Reading, bad: BadRows, tell: Tell
) -> None:
    labelled = read_items(list(files), EmbedItem, reading, bad=bad)
    tell(labelled.description)
    if labelled.kind not in ("pairs", "tuples", "judged"):
        raise InputError(
            f"{', '.join(labelled.files)}: the rows hold {KINDS[labelled.kind]}; hard negatives "
            "are found for pairs of an anchor and a positive, or of two texts with 0 or 1; name "
            "the columns with --columns anchor=…,positive=…."
        )
    for item in labelled.items:
        anchor, positive, *others = (text.strip() for text in item.texts)
        if labelled.kind == "judged" and not item.label:
            others = [positive]
        else:
            found.add_positive(anchor, positive, item.source_location)
        for text in others:
            found.add(text, item.source_location)


def _add_collection(found: MiningTexts, path: Path, bad: BadRows, tell: Tell) -> None:
    collection = read_collection(path, bad, _SPLITS)
    tell(f"{collection.name}: the judgements are those of {collection.split}.")
    texts = {each.id: each for each in collection.documents()}
    for query, grades in collection.qrels.items():
        for document, grade in grades.items():
            if grade > 0 and document in texts:
                where = texts[document].source_location
                found.add_positive(collection.queries[query], texts[document].text, where)
    for each in texts.values():
        found.add(each.text, each.source_location)


def mine_negatives(
    model: LanguageModel,
    texts: MiningTexts,
    out: Path,
    rules: MiningRules,
    *,
    layout: RowLayout = "triplets",
    rerank: LanguageModel | None = None,
    tell: Tell = lambda sentence: None,
    progress: Progress | None = None,
) -> Mined:
    """Embeds texts, finds hard negatives, and writes rows; the file appears when it is complete.

    Args:
        model: The sentence model.
        texts: Anchors, positives, and what to choose from.
        out: The file: .jsonl or .tsv.
        rules: Which of the nearest texts are taken.
        layout: triplets: a row for each negative of a pair. tuples: a row for each pair, with the
            columns negative_1, negative_2 …; pairs with fewer negatives than wanted are left out.
        rerank: A model that compares two texts, to score candidates and positives anew.
        tell: Told what was found out.
        progress: Told how far embedding is.

    Raises:
        InputError: If there are no texts to choose from.
    """
    if len(texts.texts) < 2:
        raise InputError(
            "there is one text to choose from; negatives are other texts; add rows, or texts with "
            "--corpus."
        )
    anchors, others = list(texts.anchors), list(texts.texts)
    asked = prompt_for(model, QUERY_PROMPTS, "anchors", tell)
    told = prompt_for(model, DOCUMENT_PROMPTS, "the others", tell)
    queries = _embedded(model, anchors, asked, texts.locations, progress)
    documents = _embedded(model, others, told, texts.locations, progress)
    report = MiningReport()
    found = mine(
        queries,
        documents,
        texts.positives,
        texts.same,
        rules,
        report,
        rescore=None if rerank is None else _rescored(rerank, anchors, others),
    )
    rows = left_out = 0
    with atomic_file(out) as binary:
        for mined in found:
            for row in _rows(mined, texts, anchors, others, layout, rules.negatives):
                _write(binary, out.suffix.lower(), row, first=rows == 0)
                rows += 1
            full = len(mined.negatives) >= (rules.negatives if layout == "tuples" else 1)
            left_out += 0 if full else len(texts.positives[mined.anchor])
        if not rows:
            raise _nothing(report)
    return Mined(rows, left_out, report)


def _embedded(
    model: LanguageModel,
    texts: Sequence[str],
    prompt: str,
    locations: dict[str, str],
    progress: Progress | None,
) -> Float32Array:
    """Vectors of length 1; texts that are too long are cut."""
    parts = [
        model.embed(
            chunk,
            prompt=prompt,
            normalize=True,
            truncate=True,
            source_locations=[locations[text] for text in chunk],
            progress=progress,
        )
        for chunk in in_chunks(texts, len)
    ]
    return np.concatenate(parts)


def _rescored(
    rerank: LanguageModel, anchors: Sequence[str], texts: Sequence[str]
) -> Callable[[Sequence[tuple[int, int]]], Float64Array]:
    score = pair_scores(rerank)

    def rescore(pairs: Sequence[tuple[int, int]]) -> Float64Array:
        anchor = anchors[pairs[0][0]]
        return np.array(score(anchor, [texts[text] for _, text in pairs]), np.float64)

    return rescore


def _rows(
    mined: MinedAnchor,
    texts: MiningTexts,
    anchors: Sequence[str],
    others: Sequence[str],
    layout: RowLayout,
    wanted: int,
) -> Iterator[dict[str, str]]:
    """The rows of an anchor, for each of its positives."""
    negatives = [others[number] for number in mined.negatives]
    for number in texts.positives[mined.anchor]:
        pair = {"anchor": anchors[mined.anchor], "positive": others[number]}
        if layout == "triplets":
            for negative in negatives:
                yield {**pair, "negative": negative}
        elif len(negatives) == wanted:
            yield {**pair, **{f"negative_{n}": each for n, each in enumerate(negatives, start=1)}}


def _write(file: IO[Any], suffix: str, row: dict[str, str], *, first: bool) -> None:
    if suffix == ".jsonl":
        line = json.dumps(row, ensure_ascii=False)
    else:
        # A tab or a line end inside a text would tear the row apart.
        line = "\t".join(" ".join(text.split()) for text in row.values())
        if first:
            line = "\t".join(row) + "\n" + line
    file.write((line + "\n").encode())


def _nothing(report: MiningReport) -> InputError:
    dropped = ", ".join(f"{name} {count:,}" for name, count in report.dropped.items() if count)
    return InputError(
        f"no row can be made: of {counted(report.candidates, 'candidate')} for "
        f"{counted(report.anchors, 'anchor')} were dropped: {dropped or 'none'}; loosen the "
        "rules, or add texts with --corpus."
    )
