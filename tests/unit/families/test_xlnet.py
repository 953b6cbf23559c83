"""What an XLNet config cannot say, a sentence each; and which token speaks for its text."""

import pytest
import torch

from clozeworks.core.initialize import initialize
from clozeworks.core.layout import Layout
from clozeworks.errors import CheckpointError
from clozeworks.families.family import Config, families

FAMILY = families()["xlnet"]
SMALL = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24, "vocab_size": 50}
WRONG = [
    ({"position_embedding_type": "relative_key"},
     "position_embedding_type is 'relative_key'; positions of this family are relative, as in "
     "Transformer-XL; leave it out."),
    ({"attn_type": "past"}, "attn_type is 'past'; it must be one of bi, uni; correct it."),
    ({"attn_type": ["bi"]}, "attn_type is ['bi']; it must be one of bi, uni; correct it."),
    ({"untie_r": False},
     "untie_r is False; all layers would share their three biases; Clozeworks computes only True."),
    ({"bi_data": True},
     "bi_data is True; half of each batch would be read backwards; Clozeworks computes only "
     "False."),
    ({"same_length": True},
     "same_length is True; tokens would lose sight of the far past; Clozeworks computes only "
     "False."),
    ({"d_head": 5}, "d_head is 5; it must be d_model divided by n_head, 8; leave it out."),
    ({"clamp_len": 0.5},
     "clamp_len is 0.5; it must be a whole number from 1 to 2,147,483,647; correct it."),
    ({"summary_type": "first"},
     "summary_type is 'first'; another token would speak for its text; Clozeworks computes only "
     "'last'."),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "sentence"), WRONG)
def test_what_a_config_cannot_say(changes, sentence):
    config = Config({**FAMILY.published("xlnet-base"), **SMALL, **changes}, "x")
    with pytest.raises(CheckpointError) as caught:
        FAMILY.blueprint(config, frozenset({"pooler"}))
    assert str(caught.value) == f"x: {sentence}"


def test_the_last_token_speaks_for_its_text():
    config = Config({**FAMILY.published("xlnet-base"), **SMALL})
    model = FAMILY.blueprint(config, frozenset({"pooler", "classes"})).build().eval()
    initialize(model)
    states = torch.randn(5, 16, generator=torch.Generator().manual_seed(0))
    found = model.head("classes").logits(states, Layout([3, 2]))
    expected = model.head("classes").logits(states[[2, 4]], Layout([1, 1]))
    torch.testing.assert_close(found, expected)
