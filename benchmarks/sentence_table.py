"""How good sentence models are: a table over public sets, with 95 % intervals, as MTEB has it.

| set | measured by |
|---|---|
| STS-B, Chinese STS-B (test) | Spearman of cosine and score |
| QQP, LCQMC (test) | average precision; accuracy at the threshold that is best on dev |
| SNLI triplets (test) | how often the positive is nearer |
| SciFact (test) | nDCG@10, by the rules of trec_eval |
| WikiQA (test) | MAP over candidates, questions without an answer left out, as is the custom |

    python benchmarks/sentence_table.py MODEL … [--data DATA] [--only STS-B …] [--rows 500]
        [--out TABLE.md]

`--rows` takes the first rows of each set (of SciFact the first queries, and documents that are
judged or among the first of the corpus). From the second model on, a sign says whether it is better
(+) or worse (-) than the first beyond chance, by the paired bootstrap.
"""

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import clozeworks as cw
from clozeworks.errors import InputError
from clozeworks.language_model.evaluated import EvaluatedModel

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
Evaluate = Callable[[str, Path, int | None, Path], EvaluatedModel]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="model folders or hub names")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", type=int, help="the first rows of each set; all if not given")
    parser.add_argument("--quick", action="store_true", help="the first 50 rows")
    parser.add_argument("--out", type=Path, help="a file for the table; it is printed, too")
    options = parser.parse_args()
    if not options.models or not options.data.is_dir():
        print("Name models, and the folder of the sets with --data.")
        return
    rows = 50 if options.quick else options.rows
    with tempfile.TemporaryDirectory() as place:
        results = {
            name: [SETS[name](model, options.data, rows, Path(place)) for model in options.models]
            for name in options.only
        }
    table = "\n".join(lines(options.models, results)) + "\n"
    print(table)
    if options.out:
        options.out.write_text(table, encoding="utf-8")


def lines(models: list[str], results: dict[str, list[EvaluatedModel]]) -> Iterator[str]:
    """The table in Markdown."""
    names = [Path(model).name for model in models]
    yield f"| set | items | metric | {' | '.join(names)} |"
    yield "|---" * (3 + len(models)) + "|"
    means: list[list[float]] = [[] for _ in models]
    for name, found in results.items():
        first = found[0]
        cells = []
        for column, each in enumerate(found):
            means[column].append(each.value)
            cells.append(cell(each) + (sign(first, each) if column else ""))
        yield f"| {name} | {first.count:,} | {first.primary} | {' | '.join(cells)} |"
        for other in ("accuracy",):
            if other in first.values and other != first.primary and "threshold" in first.values:
                more = [f"{100 * each.values[other]:.1f}" for each in found]
                yield f"| | | {other}, threshold of dev | {' | '.join(more)} |"
    mean = [f"{100 * sum(values) / len(values):.1f}" for values in means]
    yield f"| mean | | | {' | '.join(mean)} |"


def cell(result: EvaluatedModel) -> str:
    low, high = (100 * end for end in result.intervals[result.primary])
    return f"{100 * result.value:.1f} ({low:.1f}–{high:.1f})"


def sign(first: EvaluatedModel, other: EvaluatedModel) -> str:
    """Whether a model differs from the first beyond chance."""
    found = first.differences(other)[0]
    return "" if not found.is_real else " +" if found.value > 0 else " -"


def opened(path: Path, rows: int | None) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(islice((line.rstrip("\n") for line in file), rows))


def measured(model: str, data: Any, **options: Any) -> EvaluatedModel:
    return cw.evaluate(model, data, task="embed", quiet=True, **options)


def sts_b(model: str, data: Path, rows: int | None, place: Path) -> EvaluatedModel:
    cells = [line.split("\t") for line in opened(data / "pair/stsb/test.tsv.gz", None)]
    scored = [(a, b, float(score)) for *_, score, a, b in (row[:7] for row in cells[1:])]
    return measured(model, columns(scored[:rows]))


def chinese_sts_b(model: str, data: Path, rows: int | None, place: Path) -> EvaluatedModel:
    cells = [line.split("\t") for line in opened(data / "pair/stsb_zh/sts-b-test.txt.gz", rows)]
    return measured(
        model, columns([(a, b, float(score)) for a, b, score in cells]), labels="numbers"
    )


def columns(rows: list[tuple[str, str, Any]]) -> dict[str, list[Any]]:
    first, second, label = zip(*rows, strict=True)
    return {"sentence1": list(first), "sentence2": list(second), "label": list(label)}


def qqp(model: str, data: Path, rows: int | None, place: Path) -> EvaluatedModel:
    def part(name: str) -> list[tuple[str, str, int]]:
        # A line break inside a text tears one row of the dev part apart.
        cells = [line.split("\t") for line in opened(data / f"pair/qqp/{name}.tsv.gz", None)[1:]]
        return [(row[4], row[5], int(row[6])) for row in cells if len(row) == 7][:rows]

    return with_dev_threshold(model, part("dev"), part("test"))


def lcqmc(model: str, data: Path, rows: int | None, place: Path) -> EvaluatedModel:
    def part(name: str) -> list[tuple[str, str, int]]:
        cells = [line.split("\t") for line in opened(data / f"pair/lcqmc_zh/{name}.txt.gz", rows)]
        return [(a, b, int(label)) for a, b, label in cells]

    return with_dev_threshold(model, part("dev"), part("test"))


def with_dev_threshold(
    model: str, dev: list[tuple[str, str, int]], test: list[tuple[str, str, int]]
) -> EvaluatedModel:
    chosen = measured(model, columns(dev), intervals=False).values["best_accuracy_threshold"]
    return measured(model, columns(test), threshold=chosen)


def snli(model: str, data: Path, rows: int | None, place: Path) -> EvaluatedModel:
    found = opened(data / "pair/snli_triplets/triplets-test.jsonl.gz", rows)
    return measured(model, [json.loads(line) for line in found])


def scifact(model: str, data: Path, rows: int | None, place: Path) -> EvaluatedModel:
    folder = data / "retrieval" / "scifact"
    if rows is not None:
        folder = smaller(folder, rows, place / "scifact")
    return cw.evaluate(model, folder, quiet=True)


def smaller(folder: Path, rows: int, place: Path) -> Path:
    """A part of a test collection: some queries, their documents, and as many others as queries."""
    judged = (folder / "qrels" / "test.tsv").read_text().splitlines()
    queries = list(dict.fromkeys(line.split("\t")[0] for line in judged[1:]))[:rows]
    kept = [line for line in judged[1:] if line.split("\t")[0] in queries]
    wanted = {line.split("\t")[1] for line in kept}
    documents = opened(folder / "corpus.jsonl.gz", None)
    chosen = [
        line
        for number, line in enumerate(documents)
        if number < rows or json.loads(line)["_id"] in wanted
    ]
    (place / "qrels").mkdir(parents=True, exist_ok=True)
    (place / "corpus.jsonl").write_text("\n".join(chosen), encoding="utf-8")
    every = "\n".join(opened(folder / "queries.jsonl.gz", None))
    (place / "queries.jsonl").write_text(every, encoding="utf-8")
    (place / "qrels" / "test.tsv").write_text("\n".join([judged[0], *kept]))
    return place


def wikiqa(model: str, data: Path, rows: int | None, place: Path) -> EvaluatedModel:
    cells = [line.split("\t") for line in opened(data / "rerank/wikiqa/test.txt.gz", None)]
    answered = {query for query, _, label in cells if label == "1"}
    kept = [(a, b, int(label)) for a, b, label in cells if a in answered]
    return measured(model, columns(kept[:rows]))


SETS: dict[str, Evaluate] = {
    "STS-B": sts_b,
    "Chinese STS-B": chinese_sts_b,
    "QQP": qqp,
    "LCQMC": lcqmc,
    "SNLI triplets": snli,
    "SciFact": scifact,
    "WikiQA": wikiqa,
}


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(str(error)) from error
