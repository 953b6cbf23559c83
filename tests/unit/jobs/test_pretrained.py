"""What a run says at its end."""

from types import SimpleNamespace

import pytest

from clozeworks.families.family import published_sizes
from clozeworks.jobs.pretrain.summary import Pretrained, beginning_of, example_of
from clozeworks.text.tokenizer.special import SpecialTokens


class Pieces:
    """What `example_of` asks of a tokenizer."""

    def __init__(self, pieces, mask):
        self.pieces = pieces
        self.special = SpecialTokens(mask=mask)

    def vocabulary(self):
        return self.pieces


@pytest.mark.parametrize(
    ("pieces", "mask", "text"),
    [
        (["the", "cat", "##s"], "[MASK]", "A [MASK] text."),
        (["the", "cat"], "<mask>", "A <mask> text."),
        (["我", "爱", "the", "##s"], "[MASK]", "今天天气很[MASK]。"),
        (["我", *map(str, range(20))], "[MASK]", "A [MASK] text."),
    ],
)
def test_the_gap_to_try_is_in_the_language_of_the_vocabulary(pieces, mask, text):
    assert example_of(Pieces(pieces, mask)) == text


@pytest.mark.parametrize(
    ("size", "parts", "loss_names", "text"),
    [
        ("gpt2", {"vocabulary"}, "causal_lm", "A text"),
        ("t5-small", {"vocabulary", "decoder"}, "prefix_lm", "A text"),
        ("t5-small", {"vocabulary", "decoder"}, "span_corruption", None),
        ("bert-tiny", {"vocabulary"}, "masked_lm", None),
    ],
)
def test_the_text_to_go_on_with(size, parts, loss_names, text, tmp_path):
    family = published_sizes()[size]
    blueprint = family.blueprint(family.published(size), frozenset(parts))
    writing = beginning_of(blueprint, (loss_names,))
    assert writing == text
    done = Pretrained(tmp_path, None, tmp_path, [], None, filling=tmp_path, writing=writing)
    command = "fill" if text is None else "generate"
    assert f"clozeworks {command} " in done.next_command()


def test_what_training_did_to_each_loss(tmp_path):
    """Of a loss that knows no right answers only the loss is told."""
    outcome = SimpleNamespace(
        step=2, tokens=20, seconds=1.0, guards=SimpleNamespace(skipped=0, spikes=0)
    )
    records = [
        {"evaluation": {"loss": 1.0, "a": {"loss": 2.0, "accuracy": 0.25}, "b": {"loss": 3.0}}},
        {"evaluation": {"loss": 0.5, "a": {"loss": 1.0, "accuracy": 0.5}, "b": {"loss": 2.5}}},
    ]
    assert Pretrained(tmp_path, outcome, tmp_path, records, None).summary()[1:] == [
        "a: 2.000 before, 1.000 after; 25.0% right before, 50.0% after.",
        "b: 3.000 before, 2.500 after.",
    ]
