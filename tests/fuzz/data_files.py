"""Files of texts and labelled rows, standard input, and words of commands."""

# ruff: noqa: E501 (a sample is read more easily on one line)

import gzip
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

from damage import Reader

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "dog",
    "lay",
    "in",
    "its",
    "garden",
    "of",
    "old",
    "new",
    "house",
    "北京",
    "的",
    "天",
    "气",
]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=9)).capitalize() + "." for n in range(60)]


CSV = "text,label\n" + "".join(f'"{text}",{"ab"[n % 2]}\n' for n, text in enumerate(TEXTS[:6]))
TSV = CSV.replace(",", "\t").replace('"', "")
ROWS = "".join(
    json.dumps({"text": text, "label": "ab"[n % 2]}) + "\n" for n, text in enumerate(TEXTS[:5])
)
PAIRS = "".join(
    json.dumps({"sentence1": t, "sentence2": t, "score": n / 2}) + "\n"
    for n, t in enumerate(TEXTS[:4])
)
CONLL = (
    "-DOCSTART- -X- O O\n\nJohn NNP B-NP B-PER\nlives VBZ B-VP O\n. . O O\n\nParis NNP B-NP B-LOC\n"
)
CONLLU = (
    "# sent_id = 1\n# text = the cat\n1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2-3\tcat\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\t_\n3\ts\ts\tX\t_\t_\t2\tx\t_\t_\n\n"
)
TAGGED = '{"tokens": ["John", "lives"], "ner_tags": ["B-PER", "O"]}\n'
SQUAD = json.dumps(
    {"version": "2.0", "data": [{"title": "t", "paragraphs": [{"context": "the cat sat", "qas": [
        {"id": "1", "question": "who?", "answers": [{"text": "cat", "answer_start": 4}], "is_impossible": False},
        {"id": "2", "question": "why?", "answers": [], "is_impossible": True}]}]}]}
)  # fmt: skip
CMRC = json.dumps(
    [{"context_id": "P", "context_text": "the cat sat", "title": "t", "qas": [
        {"query_id": "1", "query_text": "who?", "answers": ["cat", "the cat"]}]}]
)  # fmt: skip
FLAT = '{"id": "1", "question": "who?", "context": "the cat", "answers": {"text": ["cat"], "answer_start": [4]}}\n'
CHATS = '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}\n{"instruction": "a", "input": "b", "output": "c"}\n'
WRITTEN = '{"source": "a cat", "target": "ein kater"}\n' * 3
COLLECTION = {
    "corpus.jsonl": b'{"_id": "9", "title": "a", "text": "the cat"}\n{"_id": "10", "text": "a dog"}\n',
    "queries.jsonl": b'{"_id": "q1", "text": "cat"}\n{"_id": "q2", "text": "dog"}\n',
    "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq1\t9\t1\nq2\t10\t2\n",
    "qrels/dev.jsonl": b'{"query-id": "q1", "corpus-id": "9", "score": 1}\n',
}


def read_test_collection(at: Path) -> None:
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.retrieval.folder import read_collection
    from clozeworks.tasks.metrics.retrieval import retrieval

    for path in (at, at / "qrels" / "dev.jsonl"):
        for skip in (True, False):
            found = read_collection(path, BadRows(skip=skip))
            run = {query: {each.id: 1.0 for each in found.documents()} for query in found.queries}
            assert 0 <= retrieval(found.qrels, run).value <= 1


def data_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    from clozeworks.cli.items import item_type
    from clozeworks.data.files.documents import read_documents
    from clozeworks.data.files.file_format import FileFormat
    from clozeworks.data.files.texts import read_texts
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.reading import Reading, read_items

    kinds = {
        "classify": {"a.csv": CSV, "a.tsv": TSV, "a.jsonl": ROWS, "a.json": json.dumps([json.loads(line) for line in ROWS.splitlines()])},
        "compare": {"a.jsonl": PAIRS, "a.tsv": "a\tb\tlabel\n" + "".join(f"{t}\t{t}\t{n % 2}\n" for n, t in enumerate(TEXTS[:4]))},
        "tag": {"a.conll": CONLL, "a.conllu": CONLLU, "a.jsonl": TAGGED},
        "answer": {"a.json": SQUAD, "b.json": CMRC, "a.jsonl": FLAT},
        "text-to-text": {"a.jsonl": WRITTEN, "b.jsonl": CHATS.splitlines()[0] + "\n", "c.jsonl": CHATS.splitlines()[1] + "\n"},
    }  # fmt: skip
    for task, files in kinds.items():
        item = item_type(task)
        for name, text in files.items():

            def read(at: Path, item=item, name=name) -> None:
                for skip in (False, True):
                    read_items([at / name], item, Reading(), bad=BadRows(skip=skip))

            yield f"data {task} {name}", Reader({name: text.encode()}, read)
    yield "test collection", Reader(COLLECTION, read_test_collection)
    for encoding in ("gb18030", "utf-16", "latin-1"):
        text = CSV.replace("北京", "x") if encoding == "latin-1" else CSV
        text = (
            "".join(letter if ord(letter) < 256 else "é" for letter in text)
            if encoding == "latin-1"
            else text
        )

        def encoded(at: Path, encoding=encoding) -> None:
            read_texts(at / "a.csv", column="text", file_format=FileFormat(encoding=encoding))

        yield f"texts {encoding}", Reader({"a.csv": text.encode(encoding)}, encoded)
    import bz2
    import lzma

    for suffix, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):

        def packed(at: Path, suffix=suffix) -> None:
            read_texts(at / f"a.txt.{suffix}")
            for _ in read_documents(at / f"a.txt.{suffix}"):
                pass

        yield (
            f"texts {suffix}",
            Reader({f"a.txt.{suffix}": pack("\n".join(TEXTS).encode())}, packed),
        )

    def plain(at: Path) -> None:
        for options in (
            FileFormat(),
            FileFormat(bad_bytes="replace"),
            FileFormat(bad_bytes="skip-row"),
        ):
            read_texts(at / "a.txt", file_format=options)

    yield "texts txt", Reader({"a.txt": "\n".join(TEXTS[:9]).encode()}, plain)
    import pyarrow
    from pyarrow import parquet

    buffer = BytesIO()
    parquet.write_table(pyarrow.table({"text": TEXTS[:4], "label": ["a", "b"] * 2}), buffer)

    def table(at: Path) -> None:
        read_items([at / "a.parquet"], item_type("classify"), Reading())

    # The library takes as much memory at once as a damaged page says that it has.
    yield "data parquet", Reader({"a.parquet": buffer.getvalue()}, table, seconds=20.0)


def commands(lines: list[list[str]]) -> Callable[[Path], None]:
    """Runs commands in a folder; a code above 2 or a traceback is a finding."""
    from clozeworks.cli.main import run

    def read(at: Path) -> None:
        before = Path.cwd()
        os.chdir(at)
        try:
            for words in lines:
                said = StringIO()
                with redirect_stdout(StringIO()), redirect_stderr(said):
                    code = run(words)
                assert code in (0, 2), code
                message = said.getvalue()
                assert "Traceback" not in message and (code == 0 or message), message[:300]
        finally:
            os.chdir(before)

    return read


def stream_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    from clozeworks.cli.inputs import TableOptions
    from clozeworks.cli.items import ItemInput, item_type
    from clozeworks.data.labelled.bad_rows import BadRows

    def read(at: Path) -> None:
        before = sys.stdin
        for task in ("classify", "compare", "answer", "tag", "fill"):
            sys.stdin = TextIOWrapper(BytesIO((at / "stdin").read_bytes()))
            try:
                for _ in (
                    ItemInput(item_type(task), TableOptions(), BadRows(skip=True)).open("-").chunks
                ):
                    pass
            finally:
                sys.stdin = before

    yield (
        "standard input",
        Reader({"stdin": "\n".join(f"{t}\t{t}" for t in TEXTS[:5]).encode()}, read),
    )


def argument_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    lines = [
        "data\0check\0a.csv\0--task\0classify\0--columns\0text=text,label=label\0--json",
        "data\0split\0a.csv\0--task\0classify\0--out\0parts\0--dev\x000.2\0--overwrite",
        "runs\0.\0--json", "recipes\0--json", "tokenizer\0inspect\0nothing-here/x\0a text",
        "init\0pretrain\0new/recipe.toml\0--like\0bert-base", "show\0bert-base", "fill\0nothing/x\0a [MASK]\0-k\x001",
        "pretrain\0r.toml\0training.steps=3", "corpus\0show\0none", "score\0nothing/x\0a\0--batch-tokens\x003",
    ]  # fmt: skip

    def read(at: Path) -> None:
        for line in (at / "words").read_bytes().decode("utf-8", "surrogateescape").split("\n"):
            words = line.split("\0")
            if "--help" in words or words[0] in ("quickstart", "env", "finetune") or "-" in words:
                continue
            commands([words])(at)

    for line in lines:
        name = " ".join(line.split("\0")[:2])
        yield (
            f"arguments {name}",
            Reader({"words": line.encode(), "a.csv": CSV.encode()}, read, ("words",), 60.0),
        )


def template_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    from clozeworks.text.tokenizer.chat import PLAIN_TEMPLATE, ChatTemplate

    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]

    def read(at: Path) -> None:
        source = (at / "chat.jinja").read_bytes().decode("utf-8", "replace")
        ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"}).render(chat)

    yield "chat template", Reader({"chat.jinja": PLAIN_TEMPLATE.encode()}, read)
