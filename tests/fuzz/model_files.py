"""Recipes, configs, tokenizers, checkpoints, adapters, corpora and runs."""

# ruff: noqa: E501 (a sample is read more easily on one line)

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from damage import Reader
from data_files import TEXTS, WORDS, commands


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
        yield (
            f"config {name}",
            Reader({"config.json": json.dumps(config).encode()}, read, seconds=20.0),
        )


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
    import torch
    from safetensors.torch import save

    import clozeworks as cw
    from clozeworks.checkpoints import folder as checkpoints
    from clozeworks.checkpoints.adapters import load_adapter
    from clozeworks.checkpoints.generation import read_generation
    from clozeworks.checkpoints.tasks import task_of
    from clozeworks.look.tuned_lens import TunedLens
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
            {
                "idx": 3,
                "name": "3",
                "path": "3_Dense",
                "type": "sentence_transformers.base.modules.dense.Dense",
            },
            {
                "idx": 4,
                "name": "4",
                "path": "4_LayerNorm",
                "type": "sentence_transformers.models.LayerNorm",
            },
            {
                "idx": 5,
                "name": "5",
                "path": "5_Dropout",
                "type": "sentence_transformers.models.Dropout",
            },
        ]
    ).encode()
    files["3_Dense/config.json"] = json.dumps(
        {"in_features": 8, "out_features": 4, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh",
         "module_input_name": "sentence_embedding", "use_residual": True}
    ).encode()  # fmt: skip
    files["3_Dense/model.safetensors"] = save(
        {
            "linear.weight": torch.ones(4, 8),
            "linear.bias": torch.ones(4),
            "residual.weight": torch.ones(4, 8),
        }
    )
    files["4_LayerNorm/config.json"] = b'{"dimension": 4}'
    files["4_LayerNorm/model.safetensors"] = save(
        {"norm.weight": torch.ones(4), "norm.bias": torch.ones(4)}
    )
    files["5_Dropout/config.json"] = b'{"dropout": 0.1}'
    files["1_Pooling/config.json"] = json.dumps(
        {"word_embedding_dimension": 8, "pooling_mode_cls_token": True, "include_prompt": True}
    ).encode()
    files["config_sentence_transformers.json"] = json.dumps(
        {"prompts": {"query": "q: "}, "default_prompt_name": "query", "truncate_dim": 3}
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
    modules = tuple(name for name in files if name[0].isdigit() or name == "modules.json")
    yield "checkpoint modules", Reader(files, read, modules)
    listed = json.loads(files["modules.json"])
    weights = {
        "idx": 1,
        "name": "w",
        "path": "1_WordWeights",
        "type": "sentence_transformers.models.WordWeights",
    }
    weighted = files | {
        "modules.json": json.dumps([listed[0], weights, *listed[1:]]).encode(),
        "1_Pooling/config.json": b'{"pooling_mode": "mean"}',
        "1_WordWeights/config.json": b'{"vocab": ["a", "the", "cat"], "word_weights": {"a": 0.5}, "unknown_word_weight": 1}',
    }
    yield (
        "checkpoint weights of tokens",
        Reader(weighted, read, ("modules.json", "1_WordWeights/config.json")),
    )
    model = cw.load(at)

    def adapter(at: Path) -> None:
        copied = copy.copy(model)
        load_adapter(copied, at)

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

    def tuned_lens(at: Path) -> None:
        TunedLens.load(at / "lens.safetensors", model.model)

    lens = TunedLens.untrained(model.model).save(folder / "lens.safetensors")
    yield "tuned lens", Reader({"lens.safetensors": lens.read_bytes()}, tuned_lens)


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


def command_line_files(files: dict[str, bytes]) -> tuple[str, ...]:
    """The files of a run that are no snapshots."""
    return tuple(name for name in files if "snapshots" not in name)


def _opened(at: Path) -> None:
    """Reads a run as a page is told of it; whatever is said must be JSON."""
    import orjson

    from clozeworks.runs.state import read_state
    from clozeworks.serve.replies import RefusedRequest
    from clozeworks.serve.workspace.processes import continuing_words
    from clozeworks.serve.workspace.run_endpoints import CurveBody, run_curves
    from clozeworks.serve.workspace.run_records import run_details
    from clozeworks.serve.workspace.workspace import Workspace

    workspace = Workspace([at])
    for name, run in workspace.runs().items():
        orjson.dumps([workspace.record(name, run), run_details(run)])
        with suppress(RefusedRequest):
            continuing_words(run, read_state(run), [at])
        with suppress(RefusedRequest):
            orjson.dumps(run_curves(workspace, CurveBody(run=name)))


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
    yield "run, opened", Reader(files, _opened, command_line_files(files))
    yield (
        "run, its command",
        Reader(
            files, commands([["runs", "."], ["runs", ".", "--json"]]), command_line_files(files)
        ),
    )
