"""What a DeBERTa config cannot say, a sentence each."""

import pytest

from clozeworks.errors import CheckpointError
from clozeworks.families.family import Config, families

FIRST, SECOND = families()["deberta"], families()["deberta-v2"]
SMALL = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": 50, "max_relative_positions": 20, "position_buckets": 8,
}  # fmt: skip
WRONG = [
    (FIRST, {"pos_att_type": "c2p|p2p"},
     "pos_att_type is 'c2p|p2p'; known are c2p and p2c, alone or as 'c2p|p2c'; correct it."),
    (FIRST, {"pos_att_type": 3},
     "pos_att_type is 3; known are c2p and p2c, alone or as 'c2p|p2c'; correct it."),
    (FIRST, {"relative_attention": False},
     "pos_att_type is ['c2p', 'p2c']; its terms are what relative attention adds, and "
     "relative_attention is False; set relative_attention to true."),
    (SECOND, {"pos_att_type": []},
     "pos_att_type is []; its terms are what relative attention adds, and relative_attention is "
     "True; set it to 'c2p|p2c'."),
    (FIRST, {"position_embedding_type": "relative_key"},
     "position_embedding_type is 'relative_key'; positions of this family are relative, as "
     "pos_att_type says; leave it out."),
    (SECOND, {"position_embedding_type": "rotary"},
     "position_embedding_type is 'rotary'; positions of this family are relative, as pos_att_type "
     "says; leave it out."),
    (FIRST, {"talking_head": True},
     "talking_head is True; heads that talk to each other are another attention; Clozeworks "
     "computes only False."),
    (FIRST, {"max_relative_positions": 0.5},
     "max_relative_positions is 0.5; it must be a whole number from 1 to 2,147,483,647; "
     "correct it."),
    (FIRST, {"pooler_hidden_size": 8},
     "pooler_hidden_size is 8; it must be hidden_size, 16; leave it out."),
    (SECOND, {"position_buckets": 64},
     "position_buckets is 64; half of them must be fewer than the distances, of which there are "
     "20; lower it, or raise max_relative_positions."),
    (SECOND, {"norm_rel_ebd": "batch"},
     "norm_rel_ebd is 'batch'; known are none and layer_norm; correct it."),
    (SECOND, {"conv_kernel_size": 4},
     "conv_kernel_size is 4; it must be odd, or 0 for none; correct it."),
    (SECOND, {"conv_kernel_size": 3, "conv_groups": 3},
     "conv_groups is 3; it must divide hidden_size, 16."),
    (SECOND, {"attention_head_size": 64},
     "attention_head_size is 64; it must be hidden_size divided by num_attention_heads, 8; leave "
     "it out."),
]  # fmt: skip


def small(family, **changes):
    size = next(iter(family.sizes))
    return Config({**family.published(size), **SMALL, **changes}, "x")


@pytest.mark.parametrize(("family", "changes", "sentence"), WRONG)
def test_what_a_config_cannot_say(family, changes, sentence):
    with pytest.raises(CheckpointError) as caught:
        family.blueprint(small(family, **changes), frozenset({"pooler"}))
    assert str(caught.value) == f"x: {sentence}"
