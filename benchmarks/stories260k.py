"""A foreign format: a LLaMA of llama2.c becomes a Hugging Face folder, and writes its story.

    python benchmarks/stories260k.py [FOLDER] [--out MODEL] [--repeats 5] [--quick]

FOLDER holds stories260K.bin and tok512.bin. The model is converted, writes from "Once upon a time"
the likeliest tokens, and transformers, if it is installed, does the same from the same folder; the
two must agree.
docs/guides/foreign-formats.md explains the conversion.
"""

import argparse
import importlib.util
import json
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, processors

import clozeworks as cw
from clozeworks.errors import CheckpointError
from clozeworks.generate.sampling import Limits, write
from clozeworks.generate.session import DecoderSession
from clozeworks.inference.loop import evaluating
from clozeworks.text.tokenizer.tokenizer import Tokenizer

PROMPT = "Once upon a time"
HEADER = struct.Struct("<7i")
# No LLaMA comes near these; a file of another kind easily does.
MOST = {"width": 2**16, "inner": 2**18, "layers": 1024, "heads": 1024, "key_heads": 1024}
MOST |= {"tokens": 2**20, "length": 2**20}
LONGEST_PIECE = 1024
SPECIAL = ("<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class Sizes:
    """The seven numbers at the beginning of the file."""

    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    tokens: int
    length: int
    tied: bool

    @property
    def head_width(self) -> int:
        """How wide a head is."""
        return self.width // self.heads

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Every tensor of the file in its order: its name there, and its shape."""
        w, keys = self.width, self.key_heads * self.head_width
        yield "tok_embeddings", (self.tokens, w)
        for name, shape in {
            "rms_att": (w,),
            "wq": (w, w),
            "wk": (keys, w),
            "wv": (keys, w),
            "wo": (w, w),
            "rms_ffn": (w,),
            "w1": (self.inner, w),
            "w2": (w, self.inner),
            "w3": (self.inner, w),
        }.items():
            yield name, (self.layers, *shape)
        yield "rms_final", (w,)
        for name in ("freq_cis_real", "freq_cis_imag"):
            yield name, (self.length, self.head_width // 2)
        if not self.tied:
            yield "wcls", (self.tokens, w)


# Our layers in the names of Hugging Face, and what the file calls them.
LAYERS = {
    "input_layernorm": "rms_att",
    "self_attn.q_proj": "wq",
    "self_attn.k_proj": "wk",
    "self_attn.v_proj": "wv",
    "self_attn.o_proj": "wo",
    "post_attention_layernorm": "rms_ffn",
    "mlp.gate_proj": "w1",
    "mlp.down_proj": "w2",
    "mlp.up_proj": "w3",
}


def read_sizes(path: Path) -> Sizes:
    """Reads the header, and insists that the file is as long as it says; nothing is read yet."""
    with path.open("rb") as file:
        header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        raise CheckpointError(
            f"{path} has {len(header)} bytes; the header alone has {HEADER.size}; fetch it again."
        )
    width, inner, layers, heads, key_heads, tokens, length = HEADER.unpack(header)
    # The sign of the vocabulary says whether the output has a table of its own.
    sizes = Sizes(width, inner, layers, heads, key_heads, abs(tokens), length, tokens > 0)
    for name, most in MOST.items():
        value = getattr(sizes, name)
        if not 1 <= value <= most:
            raise CheckpointError(
                f"{path}: {name} is {value:,}; it must be from 1 to {most:,}; check that the file "
                f"is a model of llama2.c, version 0."
            )
    if width % heads or heads % key_heads or sizes.head_width % 2:
        raise CheckpointError(
            f"{path}: width, heads and key heads are {width}, {heads} and {key_heads}; each must "
            f"divide the one before it, heads of an even width; fetch the file again."
        )
    numbers = sum(int(np.prod(shape, dtype=object)) for _, shape in sizes.tensors())
    expected, found = HEADER.size + 4 * numbers, path.stat().st_size
    if found != expected:
        raise CheckpointError(
            f"{path} has {found:,} bytes; its header speaks of {expected:,}; fetch it again."
        )
    return sizes


def read_weights(path: Path, sizes: Sizes) -> dict[str, torch.Tensor]:
    """The tensors by the names that Hugging Face gives them."""
    numbers = np.memmap(path, dtype="<f4", mode="r", offset=HEADER.size)
    held, place = {}, 0
    for name, shape in sizes.tensors():
        count = int(np.prod(shape))
        held[name] = torch.from_numpy(np.array(numbers[place : place + count]).reshape(shape))
        place += count
    weights = {
        "model.embed_tokens.weight": held["tok_embeddings"],
        "model.norm.weight": held["rms_final"],
    }
    if not sizes.tied:
        weights["lm_head.weight"] = held["wcls"]
    for layer in range(sizes.layers):
        for theirs, name in LAYERS.items():
            weight = held[name][layer]
            if name in ("wq", "wk"):
                weight = paired_by_halves(weight, sizes.head_width)
            weights[f"model.layers.{layer}.{theirs}.weight"] = weight.contiguous()
    return weights


def paired_by_halves(weight: torch.Tensor, head_width: int) -> torch.Tensor:
    """Rows (H * D, W) in the order in which number k of a head turns with number k + D / 2.

    Trap: llama2.c, as Meta's code, turns numbers 2k and 2k + 1 together. With rows left as they are
    the model writes words, and nonsense.
    """
    pairs = weight.view(-1, head_width // 2, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)


def read_pieces(path: Path, count: int) -> list[tuple[str, float]]:
    """The pieces of a tokenizer.bin with their scores; what is no special token is UTF-8."""
    data = path.read_bytes()
    pieces, place = [], 4  # behind the length of the longest piece
    for number in range(count):
        if place + 8 > len(data):
            raise CheckpointError(
                f"{path} ends within piece {number:,} of {count:,}; the model needs all of them; "
                f"fetch it again."
            )
        score, length = struct.unpack_from("<fi", data, place)
        if not 0 <= length <= LONGEST_PIECE or place + 8 + length > len(data):
            raise CheckpointError(
                f"{path}: piece {number:,} has {length:,} bytes; it must have at most "
                f"{LONGEST_PIECE:,} and end within the file; fetch it again."
            )
        piece = data[place + 8 : place + 8 + length].decode("utf-8")
        # The first three are written as they would be printed; a space is written as such.
        pieces.append((SPECIAL[number] if number < 3 else piece.replace(" ", "▁"), score))
        place += 8 + length
    if place != len(data):
        raise CheckpointError(f"{path} goes on behind its {count:,} pieces; fetch it again.")
    return pieces


def tokenizer_of(pieces: list[tuple[str, float]]) -> Tokenizer:
    """The tokenizer: SentencePiece's pairs, best score first, and bytes for what they lack."""
    vocabulary = {piece: number for number, (piece, _) in enumerate(pieces)}
    scores = dict(pieces[3 + 256 :])
    merges = []
    for piece in sorted(scores, key=lambda piece: -scores[piece]):
        cuts = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        merges += [pair for pair in cuts if pair[0] in scores and pair[1] in scores]
    backend = Backend(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    backend.add_special_tokens(list(SPECIAL))
    return Tokenizer(backend)


def convert(folder: Path, out: Path) -> Path:
    """Writes a model folder as Hugging Face lays it out."""
    sizes = read_sizes(folder / "stories260K.bin")
    pieces = read_pieces(folder / "tok512.bin", sizes.tokens)
    out.mkdir(parents=True)
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": sizes.tokens,
        "hidden_size": sizes.width,
        "intermediate_size": sizes.inner,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.key_heads,
        "max_position_embeddings": sizes.length,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": sizes.tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    weights = read_weights(folder / "stories260K.bin", sizes)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer_of(pieces).save(out, max_length=sizes.length)
    return out


def written(model: cw.LanguageModel, prompt: str, most: int) -> list[int]:
    """The likeliest tokens behind a prompt."""
    ids = model.tokenizer.encode([prompt])[0].ids
    with evaluating(model.model), torch.inference_mode():
        reader = DecoderSession(model.model, [ids], most, None)
        steps = write(reader, [ids], limits=Limits(max_new_tokens=most, ends=(2,)))
        return [piece.token for step in steps for piece in step]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    data = Path(os.environ.get("CLOZEWORKS_DATA", beside))
    parser.add_argument("folder", type=Path, nargs="?", default=data / "weights" / "stories260K")
    parser.add_argument("--out", type=Path, help="keep the converted model here")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="2 repetitions of 50 tokens")
    options = parser.parse_args()
    if not options.folder.is_dir():
        sys.exit(f"{options.folder} is not there; name the folder with stories260K.bin.")
    with tempfile.TemporaryDirectory() as place:
        folder = convert(options.folder, options.out or Path(place) / "model")
        model, most = cw.load(folder), 50 if options.quick else 200
        tokens = model.tokenizer.encode([PROMPT])[0].ids
        print(model.tokenizer.decode([*tokens, *written(model, PROMPT, most)]))
        if importlib.util.find_spec("transformers") is None:
            print("transformers is not installed; nothing was compared.", file=sys.stderr)
        else:
            compare(model, folder, 2 if options.quick else options.repeats, most)


def compare(model: cw.LanguageModel, folder: Path, repeats: int, most: int) -> None:
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    peer = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor([model.tokenizer.encode([PROMPT])[0].ids])
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(repeats):
        begin = time.perf_counter()
        ours = written(model, PROMPT, most)
        middle = time.perf_counter()
        with torch.inference_mode():
            whole = peer.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=most,
                pad_token_id=0,
            )[0].tolist()
        seconds["ours"].append(middle - begin)
        seconds["peer"].append(time.perf_counter() - middle)
        assert ours == whole[ids.shape[1] :], "the two must write the same"
    ours_rate, peer_rate = (most / statistics.median(seconds[side]) for side in ("ours", "peer"))
    print(
        json.dumps(
            {
                "benchmark": "stories260k",
                "ratio": round(ours_rate / peer_rate, 2),
                "ours": round(ours_rate),
                "peer": round(peer_rate),
                "unit": "tokens a second, one text",
            }
        )
    )


if __name__ == "__main__":
    main()
