"""Mutates valid inputs of every reader: what is refused must be refused in a sentence, and soon.

    python tests/fuzz/readers.py                        # a minute for each reader
    python tests/fuzz/readers.py --count 200000 recipe  # so many inputs for readers named so
    python tests/fuzz/readers.py --list

An input is a folder of files of which one is damaged, structurally (JSON, TOML) or byte by byte. It
may be read, or end in a `ClozeworksError` whose text is a sentence; anything else, more than
two seconds, or more memory than 4 GB, is a finding. `test_readers.py` tries a few of each.
"""

# ruff: noqa: E501 (a sample is read more easily on one line)

import argparse
import copy
import gzip
import json
import math
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

from clozeworks.errors import ClozeworksError

SECONDS, BYTES, LONGEST = 2.0, 4 << 30, 5000
VALUES = [
    None, True, False, 0, 1, -1, 2, 7, 1000, 2**31, 2**32 + 5, 2**63, -(2**70), 10**400, 1e308, 1e-320,
    0.5, -0.5, 1.5, math.nan, math.inf, -math.inf, "", " ", "none", "x", "0", "\x00", "\x1b[2J", "\ud800",
    "a" * 300, "é\u202e", "../x", "/etc/passwd", "bert", "gelu", [], [[]], [0], [-1], ["x"], [None],
    [math.inf], [{}], {}, {"": 1}, {"kind": []}, {"kind": "x"}, {"type": "x"}, {"x": {"x": []}},
    [0] * 50, {"0": "a", "1": "a"}, {"a": 0, "b": 0},
]  # fmt: skip
PIECES = [
    b"", b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b"\t", b"\"", b"'", b"\\",
    b"{", b"}", b"[", b"]", b":", b",", b"=", b"#", b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 5000,
    b"[" * 3000, b"null", b"true", b"\xc3\x28", b"\xed\xa0\x80", b"\x1b[2J", b"\xe2\x80\xae", b"|", b";",
    b"\\ud800", b"\\u0000", "　".encode(), b"{{", b"{%", b"%}", b"-", b"0", b"O", b"B-", b"I-", b"_",
]  # fmt: skip


class TooSlow(BaseException):
    """The alarm rang."""


@dataclass
class Reader:
    """Something that reads files.

    Attributes:
        files: Valid content by path; what `damaged` names is changed.
        read: Reads the folder that holds them.
        damaged: The paths that are changed; all if empty.
        seconds: How long it may take.
    """

    files: dict[str, bytes]
    read: Callable[[Path], object]
    damaged: tuple[str, ...] = ()
    seconds: float = SECONDS


@dataclass
class Findings:
    """What was found: an example for each place that raised something else."""

    tried: int = 0
    refused: int = 0
    seconds: float = 0.0
    found: dict[str, tuple[bytes, str]] = field(default_factory=dict)


def paths(data: object, path: tuple = ()) -> Iterator[tuple]:
    """Every key of nested objects and lists."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in list(pairs)[:60]:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


def restructured(rng: random.Random, base: object) -> object:
    """A copy of plain data with some values changed, taken away, added or moved."""
    data = copy.deepcopy(base)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not isinstance(data, dict | list) or rng.random() < 0.01:
            return copy.deepcopy(rng.choice(VALUES))
        known = list(paths(data))
        *above, last = rng.choice(known) if known else ("x",)
        inner = data
        for key in above:
            inner = inner[key]
        choice = rng.random()
        if choice < 0.65:
            new = copy.deepcopy(rng.choice(VALUES))
            if isinstance(inner, dict) or last != "x":
                inner[last] = new
        elif choice < 0.8:
            if known:
                del inner[last]
        elif isinstance(inner, dict):
            key = rng.choice(["x", "kind", "type", "", "0", "labels", *map(str, above)])
            inner[key] = copy.deepcopy(rng.choice(VALUES))
        else:
            inner.append(copy.deepcopy(rng.choice([*VALUES, *inner[:1]])))
    return data


def scrambled(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some changed, taken away, put in, repeated or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(changed) + 1)
        choice = rng.random()
        if choice < 0.3 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif choice < 0.5:
            del changed[at : at + rng.choice((1, 1, 2, 5, 30))]
        elif choice < 0.75:
            changed[at:at] = rng.choice(PIECES)
        elif choice < 0.85:
            changed[at:at] = changed[at : at + rng.randint(1, 40)]
        elif choice < 0.9:
            del changed[at:]
        elif changed:
            other = rng.randrange(len(changed))
            changed[at : at + 4] = changed[other : other + 4]
    return bytes(changed)


def mutated(rng: random.Random, name: str, data: bytes) -> bytes:
    """One file, damaged."""
    if rng.random() < 0.6:
        if name.endswith(".json"):
            text = json.dumps(restructured(rng, json.loads(data)))
            return text.encode("utf-8", "surrogatepass")
        if name.endswith(".jsonl"):
            lines = [json.loads(line) for line in data.splitlines()]
            number = rng.randrange(len(lines))
            lines[number] = restructured(rng, lines[number])
            return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        if name.endswith(".safetensors"):
            size = int.from_bytes(data[:8], "little")
            head = json.dumps(restructured(rng, json.loads(data[8 : 8 + size]))).encode()
            size = rng.choice((len(head), len(head), len(head), 0, len(head) + 1, 2**63))
            return (
                size.to_bytes(8, "little") + head + data[8 + int.from_bytes(data[:8], "little") :]
            )
    return scrambled(rng, data)


def is_sentence(text: str) -> bool:
    """Whether a message can be shown as it is."""
    ends = text.rstrip().endswith((".", "?", "…")) or "\n" in text
    return 0 < len(text) <= LONGEST and (ends or "with: clozeworks " in text)  # a command to type


def where(error: BaseException) -> str:
    """The kind of an error and the innermost line of the package it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if "/clozeworks/" in each.filename] or frames
    return f"{type(error).__name__} at {ours[-1].filename.rpartition('/clozeworks/')[2]}:{ours[-1].lineno}"


def ring(*_: object) -> None:
    raise TooSlow


def fuzz(reader: Reader, folder: Path, rng: random.Random, count: int, seconds: float) -> Findings:
    """Damages the inputs of a reader so many times, or for so long."""
    found, began = Findings(), time.monotonic()
    names = reader.damaged or tuple(reader.files)
    for name, data in reader.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    reader.read(folder)  # it must be valid
    signal.signal(signal.SIGALRM, ring)
    while found.tried < count and time.monotonic() - began < seconds:
        name = rng.choice(names)
        data = mutated(rng, name, reader.files[name])
        (folder / name).write_bytes(data)
        found.tried += 1
        key = problem = ""
        signal.setitimer(signal.ITIMER_REAL, reader.seconds)
        try:
            reader.read(folder)
        except ClozeworksError as error:
            found.refused += 1
            if not is_sentence(str(error)):
                key, problem = f"{where(error)}, not a sentence", repr(str(error)[:300])
        except TooSlow as error:
            key, problem = where(error), "too slow"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            key, problem = where(error), f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if key and key not in found.found:
            found.found[key] = (data, f"{name}: {problem}")
        (folder / name).write_bytes(reader.files[name])
    found.seconds = time.monotonic() - began
    return found


# What is read -------------------------------------------------------------------------------------


def files_of(folder: Path, *, most: int = 100_000) -> dict[str, bytes]:
    """The files of a folder; those that are too large to damage often are left out.

    Checksums are left out as well: with them nothing else of a damaged file would be read.
    """
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.stat().st_size < most and path.name != ".lock"
    }
    for name, data in files.items():
        if name.endswith(".json") and b'"checksum"' in data:
            record = json.loads(data)
            del record["checksum"]
            if name == "clozeworks.json":
                del record["files"]
            files[name] = json.dumps(record).encode()
    return files


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


def recipe_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    from clozeworks.jobs.finetune.recipe import read_finetune_recipe
    from clozeworks.jobs.pretrain.recipe import read_recipe

    pretrain = """
run = "run"
objective = {kind = "masked_lm", hide = {kind = "whole_words"}, examples = {kind = "blocks", length = 16}}
model = {start = "bert-tiny", config = {hidden_size = 32}}
data = {corpus = "corpus", stages = [{length = 16, fraction = 1.0}]}
[training]
steps = 6
batch_tokens = 128
optimizer = {kind = "adam_w", betas = [0.9, 0.98]}
schedule = {kind = "linear", warmup_steps = 3}
[evaluation]
every_steps = 3
"""
    finetune = """
run = "run"
model = "model"
task = {kind = "classify", pooling = "mean", windows = {length = 64, overlap = 8}}
data = {train = ["a.csv"], dev = ["b.csv"], columns = {text = "x"}}
lora = {rank = 8, alpha = 16.0}
seeds = [0, 1]
[training]
epochs = 3
optimizer = {kind = "adam_w"}
"""
    for name, text, read in (
        ("recipe pretrain", pretrain, read_recipe),
        ("recipe finetune", finetune, read_finetune_recipe),
    ):
        yield name, Reader({"r.toml": text.encode()}, lambda at, read=read: read(at / "r.toml"))


def config_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    from clozeworks.checkpoints.folder import read_config
    from clozeworks.families.family import families

    def read(at: Path) -> None:
        config, family = read_config(at)
        architectures = list(family.architectures.values())
        each = architectures[(at / "config.json").stat().st_size % len(architectures)]
        family.blueprint(config, each.parts)

    for name, family in families().items():
        size = next(iter(family.sizes))
        config = dict(family.published(size)) | {"model_type": family.model_type}
        yield f"config {name}", Reader({"config.json": json.dumps(config).encode()}, read)


def tokenizer_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
    from clozeworks.text.tokenizer.tokenizer import Tokenizer
    from clozeworks.text.training.train import train_from_iterator

    def read(at: Path) -> None:
        tokenizer = Tokenizer.load(at)
        encoded = tokenizer.encode(TEXTS[:2])
        tokenizer.decode(encoded[0].ids)

    for kind, style in (("wordpiece", None), ("bpe", GPT2_STYLE), ("unigram", T5_STYLE)):
        options = {} if style is None else {"style": style}
        at = folder / f"trained-{kind}"
        train_from_iterator(TEXTS, kind=kind, size=320, **options).save(at)
        files = files_of(at)
        yield f"tokenizer {kind}", Reader(files, read)
        plain = {name: data for name, data in files.items() if name != "tokenizer.json"}
        if set(plain) & {"vocab.txt", "vocab.json"}:
            yield f"tokenizer {kind} without tokenizer.json", Reader(plain, read)

    def read_pieces(at: Path) -> None:
        Tokenizer.load(at, T5_STYLE).encode(TEXTS[:2])

    yield "tokenizer spiece", Reader({"spiece.model": sentence_piece()}, read_pieces)


def sentence_piece() -> bytes:
    """A small SentencePiece file: pieces with scores and types, as protocol buffers write them."""
    import struct

    def piece(text: str, score: float, kind: int) -> bytes:
        data = text.encode()
        inner = b"\x0a" + bytes([len(data)]) + data + b"\x15" + struct.pack("<f", score)
        inner += b"\x18" + bytes([kind])
        return b"\x0a" + bytes([len(inner)]) + inner

    pieces = [piece("<pad>", 0, 3), piece("</s>", 0, 3), piece("<unk>", 0, 2)]
    pieces += [piece(f"▁{word}", -1.0 - n, 1) for n, word in enumerate(WORDS)]
    pieces += [piece(letter, -9.0, 1) for letter in "▁abcdefghijklmnopqrstuvwxyz.北京的天气"]
    # Settings of the trainer and of the normalizer, of which only the names matter.
    return b"".join(pieces) + b"\x12\x02\x18\x01" + b"\x1a\x06\x0a\x04nmt_"


def checkpoint_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    import clozeworks as cw
    from clozeworks.checkpoints import folder as checkpoints
    from clozeworks.checkpoints.adapters import load_adapter
    from clozeworks.checkpoints.generation import read_generation
    from clozeworks.checkpoints.tasks import task_of
    from clozeworks.text.training.train import train_from_iterator

    at = folder / "made"
    tokenizer = train_from_iterator(TEXTS, kind="wordpiece", size=200)
    small = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    cw.new("bert-tiny", tokenizer, max_position_embeddings=16, **small).save(at)
    files = files_of(at)
    files["modules.json"] = json.dumps(
        [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {
                "idx": 1,
                "name": "1",
                "path": "1_Pooling",
                "type": "sentence_transformers.models.Pooling",
            },
            {"idx": 2, "name": "2", "path": "2", "type": "sentence_transformers.models.Normalize"},
        ]
    ).encode()
    files["1_Pooling/config.json"] = json.dumps(
        {"word_embedding_dimension": 8, "pooling_mode_cls_token": True, "include_prompt": True}
    ).encode()
    files["config_sentence_transformers.json"] = json.dumps(
        {"prompts": {"query": "q: "}, "default_prompt_name": "query"}
    ).encode()
    files["sentence_bert_config.json"] = b'{"max_seq_length": 12, "do_lower_case": false}'
    files["generation_config.json"] = b'{"eos_token_id": [2, 3], "max_length": 20}'
    files["clozeworks.json"] = json.dumps(
        {**json.loads(files.get("clozeworks.json", b"{}")), "sentinels": "named"}
    ).encode()
    small_files = tuple(name for name in files if name != "tokenizer.json")

    def read(at: Path) -> None:
        read_generation(at)
        task_of(checkpoints.load(at), str(at))

    yield "checkpoint", Reader(files, read, small_files)
    yield "checkpoint weights", Reader(files, read, ("model.safetensors",))
    model = cw.load(at)

    def adapter(at: Path) -> None:
        copied = copy.copy(model)
        load_adapter(copied, at)

    import torch
    from safetensors.torch import save

    prefix = "base_model.model.bert.encoder.layer.0.attention.self.query"
    pair = {
        f"{prefix}.lora_A.weight": torch.ones(2, 8),
        f"{prefix}.lora_B.weight": torch.ones(8, 2),
    }
    settings = {
        "peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["query"], "bias": "none",
        "task_type": None, "modules_to_save": None, "base_model_name_or_path": "x", "lora_dropout": 0.0,
    }  # fmt: skip
    both = {
        "adapter_config.json": json.dumps(settings).encode(),
        "adapter_model.safetensors": save(pair),
    }
    yield "adapter", Reader(both, adapter)


def corpus_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    from clozeworks.data.corpus.build import BuildSettings, build_corpus
    from clozeworks.data.corpus.corpus import Corpus
    from clozeworks.data.corpus.verify import verify
    from clozeworks.display.corpus_page import page
    from clozeworks.text.training.train import train_from_iterator

    (folder / "text.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    tokenizer = train_from_iterator(TEXTS, kind="wordpiece", size=200)
    build_corpus([folder / "text.txt"], folder / "corpus", tokenizer, BuildSettings(validation=0.2))
    files = files_of(folder / "corpus")

    def read(at: Path) -> None:
        corpus = Corpus.open(at)
        for name in corpus.splits:
            split = corpus.split(name)
            split.read(0, min(20, split.tokens))
            split.sentence_offsets, split.document_offsets  # noqa: B018
        verify(corpus)
        page(corpus, 1, 0)

    damaged = tuple(name for name in files if not name.startswith("tokenizer"))
    yield "corpus manifest", Reader(files, read, ("manifest.json",))
    yield (
        "corpus shards",
        Reader(files, read, tuple(name for name in damaged if "manifest" not in name)),
    )


def run_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    import torch

    from clozeworks.engine import metrics
    from clozeworks.engine.snapshots import Snapshots
    from clozeworks.runs.folder import read_lines
    from clozeworks.runs.listing import find_runs
    from clozeworks.runs.state import RunState

    run = folder / "a-run"
    run.mkdir()
    command = ("clozeworks", "pretrain", "r.toml")
    RunState("pretrain", "stopped", step=4, steps=9, loss=2.5, command=command).write(run)
    lines = [{"step": n, "loss": 2.0, "evaluation": {"loss": 2.0}} for n in range(4)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "sessions.jsonl").write_text('{"command": ["clozeworks", "pretrain"], "ranks": 2}\n')
    (run / "recipe.json").write_text("{}")
    snapshots = Snapshots(run / "snapshots", 2)
    for step in (2, 4):
        snapshots.begin(step, {"model": {"w": torch.ones(2)}}, {"window": {}})
        snapshots.wait()
    files = files_of(run)

    def read(at: Path) -> None:
        for state in find_runs([at]).values():
            state.continue_command  # noqa: B018
        metrics.Metrics(at / "metrics.jsonl", 3).close()
        read_lines(at / "sessions.jsonl")
        Snapshots(at / "snapshots", 2).read_latest()

    yield "run", Reader(files, read)
    command_line_files = tuple(name for name in files if "snapshots" not in name)
    yield (
        "run, its command",
        Reader(files, commands([["runs", "."], ["runs", ".", "--json"]]), command_line_files),
    )


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
FLAT = '{"id": "1", "question": "who?", "context": "the cat", "answers": {"text": ["cat"], "answer_start": [4]}}\n'
CHATS = '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}\n{"instruction": "a", "input": "b", "output": "c"}\n'
WRITTEN = '{"source": "a cat", "target": "ein kater"}\n' * 3


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
        "answer": {"a.json": SQUAD, "a.jsonl": FLAT},
        "text-to-text": {"a.jsonl": WRITTEN, "b.jsonl": CHATS.splitlines()[0] + "\n", "c.jsonl": CHATS.splitlines()[1] + "\n"},
    }  # fmt: skip
    for task, files in kinds.items():
        item = item_type(task)
        for name, text in files.items():

            def read(at: Path, item=item, name=name) -> None:
                for skip in (False, True):
                    read_items([at / name], item, Reading(), bad=BadRows(skip=skip))

            yield f"data {task} {name}", Reader({name: text.encode()}, read)
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
    import os

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


GROUPS = (
    recipe_readers, config_readers, tokenizer_readers, checkpoint_readers, corpus_readers, run_readers,
    data_readers, stream_readers, argument_readers, template_readers,
)  # fmt: skip


def readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    """Every reader with its valid input; `folder` is for making them."""
    for group in GROUPS:
        inside = folder / group.__name__
        inside.mkdir(parents=True)
        yield from group(inside)


def main() -> int:
    """Fuzzes the readers whose names hold one of the given words."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of readers; all if not given")
    parser.add_argument("--count", type=int, default=10**9, help="inputs for each reader")
    parser.add_argument("--seconds", type=float, default=None, help="seconds for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print the names of all readers")
    arguments = parser.parse_args()
    seconds = arguments.seconds or (60.0 if arguments.count == 10**9 else math.inf)
    fast = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="fuzz", dir=fast))
    problems = 0
    try:
        for name, reader in readers(folder / "made"):
            if arguments.list:
                print(name)
                continue
            if arguments.names and not any(word in name for word in arguments.names):
                continue
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            at = folder / "input"
            at.mkdir()
            found = fuzz(reader, at, random.Random(arguments.seed), arguments.count, seconds)
            shutil.rmtree(at)
            speed = found.tried / max(found.seconds, 1e-9)
            print(
                f"{name}: {found.tried:,} inputs, {found.refused:,} refused, {len(found.found)} "
                f"findings, {speed:,.0f} a second",
                flush=True,
            )
            for key, (data, problem) in found.found.items():
                problems += 1
                print(f"    {key}\n        {problem[:400]}\n        {data[:300]!r}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return min(problems, 1)


if __name__ == "__main__":
    sys.exit(main())
