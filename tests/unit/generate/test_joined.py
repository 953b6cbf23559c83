"""Texts of several callers grow as rows of one batch: each as if it were alone."""

import pytest
import torch

from clozeworks.core.initialize import initialize
from clozeworks.families.family import Config, families
from clozeworks.generate.session import GrowingTexts

V = 23
SIZES = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 60, "vocab_size": V},
    "gpt": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 60, "vocab_size": V},
    "llama": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 24, "vocab_size": V,
    },
    "mistral": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "intermediate_size": 24, "vocab_size": V, "sliding_window": 5,
    },
    "t5": {
        "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "vocab_size": V,
    },
}  # fmt: skip
FIRST, SECOND, THIRD = [[3, 4, 5, 6, 7], [2, 9]], [[8, 8, 2, 2, 4, 4, 9, 3, 3]], [[5], [6, 6, 6]]


@pytest.fixture(scope="module", params=SIZES)
def model(request):
    name = {"gpt": "openai-gpt"}.get(request.param, request.param)
    parts = {"vocabulary", "decoder"} if request.param == "t5" else {"vocabulary"}
    made = families()[name].blueprint(Config(SIZES[request.param]), frozenset(parts)).build()
    initialize(made, seed=4, std=0.7)
    return made.double().eval()


class Alone:
    """Prompts by themselves, and the tokens they were given so far."""

    def __init__(self, model, prompts):
        self.texts = GrowingTexts(model)
        self.logits = self.texts.prefill(prompts, 20, 0)
        self.rows = len(prompts)

    def step(self, tokens):
        self.logits = self.texts.step(tokens)
        return self.logits


def drawn(rows, step):
    return torch.arange(rows) * 5 % V + step % 3


@torch.inference_mode()
def test_rows_of_several_grow_as_if_alone(model):
    own = [Alone(model, prompts) for prompts in (FIRST, SECOND, THIRD)]
    several = [Alone(model, prompts) for prompts in (FIRST, SECOND, THIRD)]
    for one in (own[0], several[0]):  # some have begun before others come
        for step in range(3):
            one.step(drawn(2, step))
    together = GrowingTexts.joined([several[0].texts, several[1].texts], 17)
    for step in range(2):
        tokens = drawn(3, step)
        logits = together.step(tokens)
        expected = torch.cat([own[0].step(tokens[:2]), own[1].step(tokens[2:])])
        torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    # The first row leaves, another caller comes; the longest text is the second caller's.
    together.choose([1, 2])
    own[0].texts.reorder([1])
    own[0].texts.reorder_prompts([1])
    together = GrowingTexts.joined([together, several[2].texts], 15)
    for step in range(10):
        tokens = drawn(4, step)
        logits = together.step(tokens)
        expected = [own[0].step(tokens[:1]), own[1].step(tokens[1:2]), own[2].step(tokens[2:])]
        torch.testing.assert_close(logits, torch.cat(expected), rtol=1e-9, atol=1e-9)
    # Only the short ones are left: columns that nobody needs go when the next one joins.
    together.choose([3, 2])
    own[2].texts.reorder([1, 0])
    own[2].texts.reorder_prompts([1, 0])
    late, alone = Alone(model, SECOND), Alone(model, SECOND)
    together = GrowingTexts.joined([together, late.texts], 5)
    tokens = drawn(3, 1)
    expected = torch.cat([own[2].step(tokens[:2]), alone.step(tokens[2:])])
    torch.testing.assert_close(together.step(tokens), expected, rtol=1e-9, atol=1e-9)


@torch.inference_mode()
def test_beams_keep_their_prompts(model):
    alone, one, two = (Alone(model, prompts) for prompts in (FIRST, FIRST, SECOND))
    together = GrowingTexts.joined([one.texts, two.texts], 19)
    rows = [0, 0, 1, 1]  # two beams of each of the first caller's prompts
    alone.texts.reorder(rows)
    together.choose([*rows, 2])
    tokens = drawn(5, 1)
    found, expected = together.step(tokens), alone.step(tokens[:4])
    torch.testing.assert_close(found[:4], expected, rtol=1e-9, atol=1e-9)
    crossed = [1, 1, 3, 2]
    alone.texts.reorder(crossed)
    together.choose([*crossed, 4])
    found, expected = together.step(tokens), alone.step(tokens[:4])
    torch.testing.assert_close(found[:4], expected, rtol=1e-9, atol=1e-9)
