"""The converter of llama2.c's format: the same numbers, and complaints before memory is taken."""

import importlib.util
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.core.layout import Layout
from clozeworks.errors import CheckpointError

ROOT = Path(__file__).resolve().parents[3]
WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, TOKENS, LENGTH = 16, 24, 2, 4, 2, 270, 12
STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
    "One day, she saw a big, red ball. She wanted to play with it, but it was too high.\n"
    "Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know what to do. "
    'She said, "I want to play with your ball, but I can\'t find it."\n'
    "Lily was sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to "
    'do."\n'
    "Lily didn't want to help her mom, so she"
)


@pytest.fixture(scope="module")
def stories():
    place = ROOT / "benchmarks" / "stories260k.py"
    spec = importlib.util.spec_from_file_location("stories260k", place)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for its module by name.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "stories260k", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def folder(request, stories, tmp_path):
    sizes = stories.Sizes(
        WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, TOKENS, LENGTH, tied=request.param
    )  # fmt: skip
    rng = np.random.default_rng(0)
    tokens = TOKENS if request.param else -TOKENS
    data = struct.pack("<7i", WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, tokens, LENGTH)
    for _, shape in sizes.tensors():
        data += (0.3 * rng.standard_normal(shape)).astype("<f4").tobytes()
    (tmp_path / "stories260K.bin").write_bytes(data)
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256))]
    pieces += [b" ", b"c", b"a", b"t", b"at", b" c", b" cat", b"s", b" s", b" sat", "é".encode()]
    scores = [0.0] * 259 + [-9, -8, -7, -6, -1, -2, -3, -10, -4, -5, -11]
    whole = struct.pack("<i", 6)
    for piece, score in zip(pieces, scores, strict=True):
        whole += struct.pack("<fi", score, len(piece)) + piece
    (tmp_path / "tok512.bin").write_bytes(whole)
    return tmp_path


def reference(weights, ids, tied):
    """llama2.c's forward, number by number: pairs of neighbours are turned."""
    head = WIDTH // HEADS

    def norm(x, g):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g

    def turned(x):
        out = x.copy()
        for place in range(len(x)):
            for k in range(0, x.shape[1], 2):
                angle = place / 10_000 ** ((k % head) / head)
                a, b = x[place, k], x[place, k + 1]
                out[place, k] = a * np.cos(angle) - b * np.sin(angle)
                out[place, k + 1] = a * np.sin(angle) + b * np.cos(angle)
        return out

    x = weights["tok_embeddings"][ids]
    for n in range(LAYERS):
        y = norm(x, weights["rms_att"][n])
        q, k = (turned(y @ weights[name][n].T) for name in ("wq", "wk"))
        v = y @ weights["wv"][n].T
        found = np.zeros_like(q)
        for h in range(HEADS):
            own = slice(h * head, (h + 1) * head)
            shared = slice(h // (HEADS // KEY_HEADS) * head, (h // (HEADS // KEY_HEADS) + 1) * head)
            scores = q[:, own] @ k[:, shared].T / np.sqrt(head)
            scores[np.triu_indices(len(ids), 1)] = -np.inf
            shares = np.exp(scores - scores.max(1, keepdims=True))
            found[:, own] = shares / shares.sum(1, keepdims=True) @ v[:, shared]
        x = x + found @ weights["wo"][n].T
        y = norm(x, weights["rms_ffn"][n])
        gate = y @ weights["w1"][n].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weights["w3"][n].T)) @ weights["w2"][n].T
    table = weights["tok_embeddings"] if tied else weights["wcls"]
    return norm(x, weights["rms_final"]) @ table.T


def test_the_same_numbers(stories, folder, tmp_path):
    sizes = stories.read_sizes(folder / "stories260K.bin")
    numbers = np.fromfile(folder / "stories260K.bin", dtype="<f4", offset=28).astype(np.float64)
    weights, place = {}, 0
    for name, shape in sizes.tensors():
        weights[name] = numbers[place : place + np.prod(shape)].reshape(shape)
        place += np.prod(shape)
    model = cw.load(stories.convert(folder, tmp_path / "model"))
    ids = [1, 40, 50, 60, 7, 262, 3]
    expected = reference(weights, ids, sizes.tied)
    with torch.no_grad():
        hidden = model.model(torch.tensor(ids), Layout([len(ids)]))
        found = model.model.heads["vocabulary"](hidden).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert model.blueprint.heads["vocabulary"].tied is sizes.tied
    assert model.max_length == LENGTH


def test_negative_control_rows_left_as_they_are(stories, folder, tmp_path, monkeypatch):
    right = cw.load(stories.convert(folder, tmp_path / "right"))
    monkeypatch.setattr(stories, "paired_by_halves", lambda weight, head_width: weight)
    wrong = cw.load(stories.convert(folder, tmp_path / "wrong"))
    assert np.abs(right.embed("cat sat") - wrong.embed("cat sat")).max() > 0.01


def test_pieces(stories, folder, tmp_path):
    tokenizer = cw.load(stories.convert(folder, tmp_path / "model")).tokenizer
    ids = tokenizer.encode(["cat sat é!"])[0].ids
    assert [tokenizer.token_of(number) for number in ids] == [
        *("<s>", "▁cat", "▁sat", "▁", "é", "<0x21>"),
    ]  # fmt: skip
    assert tokenizer.decode(ids) == "cat sat é!"


def damaged(path, change):
    path.write_bytes(change(path.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: data[:20], " has 20 bytes; the header alone has 28; fetch it again."),
        (
            lambda data: struct.pack("<i", 2**30) + data[4:],
            ": width is 1,073,741,824; it must be from 1 to 65,536; check that the file is a model "
            "of llama2.c, version 0.",
        ),
        (
            lambda data: struct.pack("<i", 18) + data[4:],
            ": width, heads and key heads are 18, 4 and 2; each must divide the one before it, "
            "heads of an even width; fetch the file again.",
        ),
    ],
)
def test_headers_that_cannot_be(stories, folder, change, sentence):
    path = damaged(folder / "stories260K.bin", change)
    with pytest.raises(CheckpointError) as caught:
        stories.read_sizes(path)
    assert str(caught.value) == f"{path}{sentence}"


def test_a_file_that_is_cut(stories, folder):
    size = (folder / "stories260K.bin").stat().st_size
    path = damaged(folder / "stories260K.bin", lambda data: data[:-4])
    with pytest.raises(CheckpointError) as caught:
        stories.read_sizes(path)
    assert str(caught.value) == (
        f"{path} has {size - 4:,} bytes; its header speaks of {size:,}; fetch it again."
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda data: data[: data.index(b" sat")],
            ": piece 268 has 4 bytes; it must have at most 1,024 and end within the file; fetch it "
            "again.",
        ),
        (
            lambda data: data[: data.index(b" sat") + 8],
            " ends within piece 269 of 270; the model needs all of them; fetch it again.",
        ),
        (lambda data: data + b"x", " goes on behind its 270 pieces; fetch it again."),
    ],
)
def test_pieces_that_cannot_be(stories, folder, change, sentence):
    path = damaged(folder / "tok512.bin", change)
    with pytest.raises(CheckpointError) as caught:
        stories.read_pieces(path, TOKENS)
    assert str(caught.value) == f"{path}{sentence}"


def test_without_its_peer_it_writes_and_says_so(stories, folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "model"
    monkeypatch.setattr(stories, "PROMPT", "cat")
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setattr(sys, "argv", ["stories260k.py", str(folder), "--out", str(out), "--quick"])
    stories.main()
    told = capsys.readouterr()
    assert told.out.startswith("cat")
    assert told.err == "transformers is not installed; nothing was compared.\n"
    assert cw.load(out).max_length == LENGTH


@pytest.mark.slow
def test_it_writes_its_story(stories, tmp_path):
    data = Path(os.environ.get("CLOZEWORKS_DATA", ROOT / ".." / "shared" / "data"))
    source = data / "weights" / "stories260K"
    if not source.is_dir():
        pytest.skip(f"the data folder {source} is not there")
    model = cw.load(stories.convert(source, tmp_path / "model"))
    prompt = model.tokenizer.encode([stories.PROMPT])[0].ids
    ids = stories.written(model, stories.PROMPT, 201 - len(prompt))
    assert model.tokenizer.decode([*prompt, *ids]) == STORY
