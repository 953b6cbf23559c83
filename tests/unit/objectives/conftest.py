"""Examples made by code: special ids are 0 to 4, 4 is the mask, the vocabulary has 200 entries."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from clozeworks.core.heads.pooled import Pooler
from clozeworks.core.initialize import initialize
from clozeworks.data.examples.example_arrays import lay_out
from clozeworks.families.bert import FAMILY
from clozeworks.families.family import Config, families
from clozeworks.objectives.batch import Vocabularies
from clozeworks.text.tokenizer.templates import Template

VOCABULARY = 200
TINY = {
    "gpt2": ("gpt2", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}),
    "llama": (
        "llama-3-8b",
        {
            "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 24,
        },
    ),
    "t5": (
        "t5-v1_1-small",
        {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_kv": 8, "d_ff": 24},
    ),
}  # fmt: skip
ONE = Template(((2,), (3,)), ((0,), (0,)), (0,))
TWO = Template(((2,), (3,), (3,)), ((0,), (0,), (1,)), (0, 1))
BARE = Template(((), ()), ((), ()), (0,))


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def examples():
    """Makes a batch of clean examples.

    `sizes` are tokens of text: one number for each example, or two for a pair. `pieces` is the
    share of tokens that go on with a word. `ids` and `starts` may be given instead of drawn.
    """

    def make(sizes, *, pieces=0.3, seed=0, epoch=0, first=0, ids=None, starts=None, **more):
        generator = np.random.default_rng(seed)
        bare = more.pop("bare", False)
        sizes = [size if isinstance(size, tuple) else (size,) for size in sizes]
        texts = []
        for number, parts in enumerate(sizes):
            texts.append([])
            for part, size in enumerate(parts):
                tokens = generator.integers(5, VOCABULARY, size)
                begins = generator.random(size) >= pieces
                begins[:1] = True
                if ids is not None:
                    tokens = np.array(ids[number][part])
                if starts is not None:
                    begins = np.array(starts[number][part], dtype=bool)
                texts[-1].append((tokens, begins))
        template = BARE if bare else ONE if len(sizes[0]) == 1 else TWO
        labels = more.pop("labels", None)
        parts = [text for example in texts for text in example]
        clean = lay_out(
            template,
            np.array([[len(tokens) for tokens, _ in example] for example in texts]),
            np.concatenate([tokens for tokens, _ in parts]),
            np.concatenate([begins for _, begins in parts]),
            epochs=np.full(len(sizes), epoch),
            indices=np.arange(first, first + len(sizes)),
            labels=None if labels is None else np.array(labels),
        )
        views = more.pop("views", 1)
        assert not more
        if views > 1:
            object.__setattr__(clean, "views", views)
        return clean

    return make


@pytest.fixture(scope="session")
def corpus(in_memory):
    """A split whose tokens are far from equally frequent: id i stands there 2000 / i times."""
    return in_memory([[[i] * (2000 // i)] for i in range(5, 60)], VOCABULARY)


@pytest.fixture(scope="session")
def source(corpus):
    return Vocabularies(VOCABULARY, mask_id=4, special_ids=(0, 1, 2, 3, 4), split=corpus)


@pytest.fixture
def model():
    """Builds a tiny BERT in float64 with both heads, ready for an objective, dropout off."""

    def make(objective, *, width=16, dropout=0.0, heads=("vocabulary", "next_sentence")):
        settings = {
            **FAMILY.published("bert-tiny"),
            "hidden_size": width,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "vocab_size": VOCABULARY,
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout,
        }
        parts = frozenset({*heads, "pooler"} if "next_sentence" in heads else heads)
        blueprint = FAMILY.blueprint(Config(settings), parts)
        assert blueprint.pooler in (None, Pooler())
        built = objective.equip(blueprint).build()
        initialize(built, seed=3, std=0.3)
        return built.double().train()

    return make


@pytest.fixture(scope="session")
def tiny():
    """Builds a tiny GPT-2, LLaMA or T5 in float64 with what an objective needs, dropout off."""

    def make(name, objective, **changes):
        family = families()[name]
        size, small = TINY[name]
        none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "dropout_rate": 0.0}
        settings = {**family.published(size), **small, **none, "vocab_size": VOCABULARY, **changes}
        parts = objective.required_heads(family.paths)
        built = objective.equip(family.blueprint(Config(settings), parts)).build()
        initialize(built, seed=3, std=0.3)
        return built.double().train()

    return make


@pytest.fixture(scope="session")
def fits():
    """Tests counts against their expectation; `shrink` corrects for draws without replacement."""

    def p_value(observed, expected, shrink=1.0):
        observed, expected = np.asarray(observed, float), np.asarray(expected, float)
        expected = expected * observed.sum() / expected.sum()
        assert expected.min() >= 5, "too few expected for a chi-square test"
        statistic = ((observed - expected) ** 2 / expected).sum() / shrink
        return chi2.sf(statistic, len(observed) - 1)

    return p_value


@pytest.fixture(scope="session")
def runs():
    """The runs of hidden tokens within segments, as (start, end) pairs, found the slow way."""

    def find(clean, hidden):
        flags = np.zeros(len(clean.ids), bool)
        flags[hidden] = True
        found, open_run = [], None
        ends = set(np.cumsum(clean.lengths).tolist())
        for place_ in range(len(flags) + 1):
            inside = place_ < len(flags) and flags[place_]
            if open_run is not None and (not inside or place_ in ends):
                found.append((open_run, place_))
                open_run = None
            if inside and open_run is None:
                open_run = place_
        return found

    return find


class Fixed:
    """A stand-in for chance: the same numbers, over and over, for every example."""

    def __init__(self, streams, name=""):
        self.streams, self.numbers = streams, streams[name]

    def stream(self, name):
        return Fixed(self.streams, name)

    def words(self, epochs, indices, count):
        numbers = np.resize(np.array(self.numbers) * 2.0**32, count).astype(np.uint32)
        return np.tile(numbers, (np.size(indices), 1))

    def four(self, epochs, indices, blocks):
        return self.words(0, 0, 4 * (max(blocks) + 1)).reshape(-1, 4)[blocks]


@pytest.fixture(scope="session")
def fixed():
    """Makes a stand-in for chance from lists of numbers by the name of a stream."""
    return Fixed
