"""Tiny random models of the peer library, with weights large enough for mistakes to show.

And the environment of the client libraries, which `make clients` makes.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers")

import torch  # noqa: E402

from clozeworks.families.family import Config  # noqa: E402

SIZES = {
    "bert": {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": 99,
        "max_position_embeddings": 40,
        "type_vocab_size": 2,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "num_labels": 3,
    },
    "distilbert": {
        "dim": 32,
        "n_layers": 3,
        "n_heads": 4,
        "hidden_dim": 48,
        "vocab_size": 99,
        "max_position_embeddings": 40,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "seq_classif_dropout": 0.0,
        "qa_dropout": 0.0,
        "num_labels": 3,
    },
}
SIZES["roberta"] = {
    **SIZES["bert"],
    "max_position_embeddings": 42,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
SIZES["xlm-roberta"] = SIZES["roberta"]
SIZES["camembert"] = {**SIZES["roberta"], "bos_token_id": 5, "eos_token_id": 6}
SIZES["ernie"] = SIZES["bert"]
# Token vectors have a width of their own.
SIZES["electra"] = {**SIZES["bert"], "embedding_size": 20}
# A narrow table, and two layers that run twice each.
SIZES["albert"] = {
    **SIZES["bert"],
    "num_hidden_layers": 4,
    "num_hidden_groups": 2,
    "embedding_size": 12,
    "classifier_dropout_prob": 0.0,
}
# Distances beyond the table's span, and types, which no published size has.
SIZES["deberta"] = {
    **SIZES["bert"],
    "layer_norm_eps": 1e-7,
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "max_relative_positions": 12,
    "position_biased_input": False,
}
SIZES["deberta-v2"] = {
    **SIZES["deberta"],
    "max_relative_positions": 20,
    "position_buckets": 8,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
}
SIZES["xlnet"] = {
    "d_model": 32,
    "n_layer": 3,
    "n_head": 4,
    "d_inner": 48,
    "vocab_size": 99,
    "dropout": 0.0,
    "summary_last_dropout": 0.0,
    "num_labels": 3,
}
# A window shorter than most texts, and texts longer than those of training may be read.
SIZES["modernbert"] = {
    "hidden_size": 32,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
    "local_attention": 8,
    "max_position_embeddings": 16,
    "num_labels": 3,
    **{f"{token}_token_id": 0 for token in ("pad", "bos", "eos", "cls", "sep")},
}
SIZES["gpt2"] = {
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 40,
    "vocab_size": 99,
    "num_labels": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "classifier_dropout": 0.0,
    **{f"{place}_pdrop": 0.0 for place in ("resid", "embd", "attn")},
}
SIZES["openai-gpt"] = SIZES["gpt2"]
SIZES["llama"] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 99,
    "num_labels": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "classifier_dropout": 0.0,
}
SIZES["mistral"] = {**SIZES["llama"], "sliding_window": None}
SIZES["qwen2"] = SIZES["llama"]
# Every second layer knows no positions.
SIZES["smollm3"] = {**SIZES["llama"], "no_rope_layer_interval": 2}
# Inner width other than the model's, towers of different depth.
SIZES["t5"] = {
    "d_model": 32,
    "d_kv": 6,
    "d_ff": 48,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "vocab_size": 99,
    "dropout_rate": 0.0,
    "decoder_start_token_id": 0,
    "num_labels": 3,
}
SIZES["mt5"] = SIZES["t5"]
ROOM = 40
CLIENTS = Path(__file__).resolve().parents[2] / ".venv-clients"


@pytest.fixture(scope="session")
def clients():
    """Runs lines of Python where the client libraries are: `clients(lines, url=url)["vectors"]`.

    The lines read what is `asked` and put what they get into `found`. The variable
    CLOZEWORKS_CLIENTS may name the interpreter of another environment.
    """
    named = os.environ.get("CLOZEWORKS_CLIENTS")
    if not named and not (CLIENTS / ".made").exists():
        pytest.skip("the client libraries are not installed; install them with: make clients")
    python = named or CLIENTS / "bin" / "python"
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def run(lines, **asked):
        begin = "import json, sys\nasked, found = json.load(sys.stdin), {}\n"
        end = "\nprint()\nprint(json.dumps(found, default=float))\n"
        done = subprocess.run(
            [python, "-c", begin + lines + end],
            input=json.dumps(asked),
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            env={**os.environ, **quiet},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def peer():
    """Makes a peer model of a class, its parameters drawn widely."""

    def make(architecture: str, seed: int = 0, **changes):
        cls = getattr(transformers, architecture)
        if "QuestionAnswering" in architecture:
            changes["num_labels"] = 2  # start and end
        config = cls.config_class(
            **{**SIZES[cls.config_class.model_type], **changes}, attn_implementation="eager"
        )
        torch.manual_seed(seed)
        model = cls(config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = torch.randn_like(parameter)
                norm = "norm" in name.lower() and name.endswith("weight")
                parameter.copy_(1 + 0.2 * noise if norm else 0.2 * noise)
        return model.eval()

    return make


@pytest.fixture
def gradients_of():
    """The gradients of a peer by our names, those of stacked weights taken apart."""

    def of(theirs, checkpoint):
        config = Config(checkpoint.config)
        names = checkpoint.family.names(type(theirs).__name__, config)
        found = {}
        # A weight that two parts share may go by the name of either.
        first = {parameter: name for name, parameter in checkpoint.model.named_parameters()}
        everywhere = checkpoint.model.named_parameters(remove_duplicate=False)
        spelled = {name: first[parameter] for name, parameter in everywhere}
        for name, parameter in theirs.named_parameters():
            if parameter.grad is None:
                continue
            forms = [f for f in checkpoint.family.forms(config) if name.endswith(f.ending)]
            for form in forms:
                for piece, gradient in zip(form.pieces, form.apart(parameter.grad), strict=True):
                    found[names.ours(f"{name}:{piece}")] = gradient
            if not forms:
                found[spelled.get(names.ours(name), name)] = parameter.grad
        return found

    return of


@pytest.fixture
def batch():
    """Ragged texts: packed for us, padded for the peer."""

    def make(lengths, *, vocabulary=99, types=True, left=False, pad=0, seed=0):
        generator = torch.Generator().manual_seed(seed)
        longest = max(lengths)
        ids = torch.full((len(lengths), longest), pad)
        kinds = torch.zeros_like(ids)
        mask = torch.zeros_like(ids)
        flat_ids, flat_kinds = [], []
        for row, length in enumerate(lengths):
            text = torch.randint(4, vocabulary, (length,), generator=generator)
            kind = (torch.arange(length) >= length // 2).long() * int(types)
            place = slice(longest - length, longest) if left else slice(0, length)
            ids[row, place], kinds[row, place], mask[row, place] = text, kind, 1
            flat_ids.append(text)
            flat_kinds.append(kind)
        return {
            "ids": torch.cat(flat_ids),
            "types": torch.cat(flat_kinds),
            "padded_ids": ids,
            "padded_types": kinds,
            "mask": mask,
        }

    return make
