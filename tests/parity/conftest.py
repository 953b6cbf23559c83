"""Tiny random models of the peer library, with weights large enough for mistakes to show."""

import pytest

transformers = pytest.importorskip("transformers")

import torch  # noqa: E402

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
# A window shorter than most texts, layers of both types; texts may be longer than those of training.
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
ROOM = 40


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
