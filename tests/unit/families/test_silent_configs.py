"""What a config means that leaves something out, or says two things at once."""

import pytest

from clozeworks.families import electra, t5
from clozeworks.families.family import Config


@pytest.mark.parametrize(
    ("config", "tied", "scaled"),
    [
        ({}, True, True),
        ({"tie_word_embeddings": False}, False, False),
        ({"tie_word_embeddings": False, "scale_decoder_outputs": True}, False, True),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True, False),
    ],
)
def test_untied_scores_of_t5_are_scaled_only_if_the_config_says_so(config, tied, scaled):
    blueprint = t5.FAMILY.blueprint(Config(config), frozenset({"decoder", "vocabulary"}))
    head = blueprint.heads["vocabulary"]
    assert (head.tied, head.scaled) == (tied, scaled)


def test_a_silent_electra_is_the_small_one():
    blueprint = electra.FAMILY.blueprint(Config({}), frozenset({"replaced"}))
    attention, feed_forward = (part.part for part in blueprint.encoder.layers[0])
    assert (blueprint.width, attention.heads, feed_forward.inner) == (256, 4, 1024)
    assert blueprint.embeddings.width == 128


def test_the_generator_of_electra_names_tokens_with_gelu_whatever_its_layers_have():
    parts = frozenset({"vocabulary"})
    blueprint = electra.FAMILY.blueprint(Config({"hidden_act": "relu"}), parts)
    assert blueprint.heads["vocabulary"].activation == "gelu"
    assert blueprint.encoder.layers[0][-1].part.activation == "relu"
    judged = electra.FAMILY.blueprint(Config({"hidden_act": "relu"}), frozenset({"replaced"}))
    assert judged.heads["replaced"].activation == "relu"
