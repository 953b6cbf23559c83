"""Odd values of every key of every family: a blueprint or a sentence, never a traceback."""

import pytest

from clozeworks.errors import ClozeworksError
from clozeworks.families.family import Config, families

FAMILIES = families()
ODD = [
    10**400,
    [], {}, "x", "", -1, 0, 3, 1.5, True, "1", [1], [["a"]], [None], {"a": 1},
    float("nan"), float("inf"), 10**12,
]  # fmt: skip
# Keys that families read and do not write, or that belong to others.
UNWRITTEN = {
    "position_embedding_type", "num_labels", "id2label", "pooler_hidden_size", "d_head",
    "attention_head_size", "untie_r", "bi_data", "same_length", "summary_type", "talking_head",
    "rope_scaling", "global_attn_every_n_layers", "global_rope_theta", "local_rope_theta",
    "decoder_bias",
}  # fmt: skip


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_config_is_read_or_refused_with_a_sentence(model_type):
    family = FAMILIES[model_type]
    size = next(iter(family.sizes))
    parts = family.extras.union(*(shape.parts for shape in family.architectures.values()))
    written = family.config(family.blueprint(family.published(size), parts))
    refused = 0
    for key in written.keys() | UNWRITTEN:
        for value in ODD:
            config = Config({**written, key: value}, "x")
            try:
                family.blueprint(config, parts)
                family.forms(config), family.spellings(config)
            except ClozeworksError as error:
                refused += 1
                assert str(error).endswith((".", "?")), f"{key} {value}: {error}"
    assert refused


@pytest.mark.parametrize(
    ("model_type", "name"),
    [("deberta-v2", "absolute"), ("xlnet", "absolute"), ("modernbert", "absolute"),
     ("modernbert", "sans_pos"), ("modernbert", "rotary"), ("bert", "absolute")],
)  # fmt: skip
def test_what_published_configs_say_of_positions_is_read(model_type, name):
    family = FAMILIES[model_type]
    plain = family.published(next(iter(family.sizes)))
    said = Config({**plain, "position_embedding_type": name})
    assert family.blueprint(said, frozenset()) == family.blueprint(plain, frozenset())
