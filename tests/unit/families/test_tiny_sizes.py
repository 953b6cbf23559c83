"""Sizes to try things out with: small, marked, and made and trained like any other."""

import pytest

import clozeworks as cw
from clozeworks.families.family import families, published_sizes

TINY = ["t5-tiny", "gpt2-tiny", "llama-tiny", "roberta-tiny", "modernbert-tiny", "bert-tiny"]


@pytest.mark.parametrize("size", TINY)
def test_a_tiny_size_is_small_and_says_where_it_comes_from(size):
    family = published_sizes()[size]
    parts = family.architectures[family.base].parts
    blueprint = family.blueprint(family.published(size), parts)
    table = blueprint.embeddings.tokens * blueprint.width
    # What trains in minutes on two cores: few weights beside the table of tokens.
    assert blueprint.count() - table < 12_000_000
    assert family.size_notes[size]


def test_notes_are_about_sizes_that_exist():
    for family in families().values():
        assert set(family.size_notes) <= set(published_sizes())
    assert published_sizes()["gpt2-tiny"].size_notes["gpt2-tiny"] == "ours, for trying"


def test_t5_tiny_has_the_published_shape():
    """As google/t5-efficient-tiny states it: its weights fit."""
    config = published_sizes()["t5-tiny"].published("t5-tiny")
    assert [config[key] for key in ("num_layers", "d_model", "d_ff", "num_heads")] == [
        4,
        256,
        1024,
        4,
    ]
    assert config.get("d_kv") in (None, 64)  # 64 is the default of the family


def test_a_model_is_made_of_each(tiny_corpora, tmp_path):
    for size, kind in (("t5-tiny", "t5"), ("gpt2-tiny", "gpt2"), ("llama-tiny", "llama")):
        model = cw.new(size, tiny_corpora[kind] / "tokenizer")
        assert cw.load(model.save(tmp_path / size)).generate("a b", max_new_tokens=1)
