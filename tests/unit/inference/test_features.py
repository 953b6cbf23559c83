"""Vectors of chosen layers equal those made by hand; what reads them equals scikit-learn."""

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.errors import ClozeworksError
from clozeworks.inference.features import (
    Scaling,
    check_layers,
    features,
    fitted,
    learned_mix,
    usual_layers,
)
from clozeworks.inference.loop import BatchOptions
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.windows import Windows, by_item, judged_in
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.text.training.train import train_from_iterator

TEXTS = ["the cat sat on the mat", "a dog", "paris and london are cities of the old world", "cat"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 32, "max_position_embeddings": 40}
ALL = ["last", "sum_last_four", "concatenate_last_four", "mix", "0", "2", "-2"]


@pytest.fixture(scope="module")
def model():
    tokenizer = train_from_iterator(TEXTS * 3, kind="wordpiece", size=60)
    return cw.new("bert-tiny", tokenizer, **SMALL, initializer_range=0.3)


def text_vectors(model, texts, layers, pooling, *, windows=Windows(), batch_tokens=None):  # noqa: B008
    task = Classify(labels=("a", "b"), pooling=pooling, windows=windows)
    made = task.windows_of([TextItem(text) for text in texts], model.tokenizer, model.max_length)
    options = BatchOptions(batch_tokens)
    return features(model.model, made, layers, pooling=pooling, options=options)


def states_of(model, text):
    """The embeddings and every layer's output, (5, T, 16)."""
    return np.stack([model.hidden_states(text, layer=layer).vectors for layer in range(5)])


def pooled(tokens, pooling):
    return {"first": tokens[0], "mean": tokens.mean(0), "max": tokens.max(0)}[pooling]


def by_hand(states, name):
    """What is read of each token."""
    if name == "sum_last_four":
        return states[1] + states[2] + states[3] + states[4]
    if name == "concatenate_last_four":
        return np.concatenate(list(states[1:]), axis=1)
    if name == "mix":
        return np.concatenate(list(states), axis=1)
    return states[{"last": 4, "-2": 3}.get(name) or int(name)]


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_vectors_of_texts_equal_hidden_states_pooled_by_hand(model, pooling):
    layers = [name for name in ALL if name != "mix" or pooling != "max"]
    found = text_vectors(model, TEXTS, layers, pooling)
    assert list(found) == layers
    for number, text in enumerate(TEXTS):
        states = states_of(model, text)
        for name in layers:
            expected = pooled(by_hand(states, name), pooling)
            assert found[name].dtype == np.float32
            np.testing.assert_allclose(found[name][number], expected, rtol=1e-4, atol=2e-5)


def test_layers_are_added_before_the_maximum_is_taken(model):
    states = states_of(model, TEXTS[0])
    after = sum(state.max(axis=0) for state in states[1:])
    found = text_vectors(model, TEXTS[:1], ["sum_last_four"], "max")["sum_last_four"][0]
    assert np.abs(found - after).max() > 0.1


def test_neighbours_and_training_mode_change_nothing(model):
    together = text_vectors(model, TEXTS, ALL, "mean")
    model.model.train()
    try:
        alone = text_vectors(model, TEXTS, ALL, "mean", batch_tokens=1)
        assert model.model.training
    finally:
        model.model.eval()
    for name in ALL:
        np.testing.assert_allclose(alone[name], together[name], rtol=1e-4, atol=1e-5)


def test_a_long_text_is_the_mean_of_its_windows_by_tokens_judged(model):
    long = " ".join(TEXTS * 2)
    windows = Windows(length=16)
    task = Classify(labels=("a", "b"), windows=windows)
    items = [TextItem("cat"), TextItem(long), TextItem("a dog")]
    made = by_item(task.windows_of(items, model.tokenizer, None))[1]
    counts = [sum(judged_in(made) == number) for number in range(len(made))]
    assert len(made) > 2 and len(set(counts)) > 1
    texts = ["cat", long, "a dog"]
    found = text_vectors(model, texts, ["last"], "mean", windows=windows)["last"]
    each = [features(model.model, [window], ["last"], pooling="mean")["last"][0] for window in made]
    expected = np.average(each, axis=0, weights=counts)
    np.testing.assert_allclose(found[1], expected, rtol=1e-4, atol=1e-5)
    short = text_vectors(model, ["cat", "a dog"], ["last"], "mean")["last"]
    np.testing.assert_allclose(found[[0, 2]], short, rtol=1e-4, atol=1e-5)


def test_a_pair_is_read_as_one(model):
    task = Compare(labels=("a", "b"), pooling="first")
    made = task.windows_of([PairItem("the cat", "a dog")], model.tokenizer, model.max_length)
    both = features(model.model, made, ["last"], pooling="first")["last"]
    swapped = task.windows_of([PairItem("a dog", "the cat")], model.tokenizer, model.max_length)
    other = features(model.model, swapped, ["last"], pooling="first")["last"]
    assert both.shape == (1, 16) and np.abs(both - other).max() > 1e-3


def test_a_word_is_its_first_piece(model):
    items = [WordsItem.of_words(["the", "cats", "sat"]), WordsItem.of_words(["dog"])]
    task = Tag(labels=("O", "X"))
    made = task.windows_of(items, model.tokenizer, model.max_length)
    found = features(model.model, made, ALL, pooling=None)
    expected = []
    for item in items:
        hidden = model.hidden_states(item.text)
        begins = [begin for begin, _ in item.spans]
        assert len(hidden.tokens) > 2 + len(begins) or len(begins) == 1
        expected += [
            next(n for n, (b, e) in enumerate(hidden.offsets) if b == begin and e > b)
            for begin in begins
        ]
    states = [*[states_of(model, items[0].text)] * 3, states_of(model, items[1].text)]
    for name in ALL:
        rows = [by_hand(s, name)[place] for s, place in zip(states, expected, strict=True)]
        np.testing.assert_allclose(found[name], rows, rtol=1e-4, atol=2e-5)


def test_a_word_of_a_long_text_is_read_where_it_is_judged(model):
    words = " ".join(TEXTS).split()
    task = Tag(labels=("O", "X"), windows=Windows(length=12))
    made = task.windows_of([WordsItem.of_words(words)], model.tokenizer, None)
    found = features(model.model, made, ["last"], pooling=None)["last"]
    assert len(made) > 2 and len(found) == len(words) == sum(len(w.positions) for w in made)
    window = made[1]
    alone = features(model.model, [window], ["last"], pooling=None)["last"]
    begin = len(made[0].positions)
    np.testing.assert_allclose(found[begin : begin + len(alone)], alone, rtol=1e-4, atol=1e-5)


def test_usual_layers_are_those_a_model_has():
    assert usual_layers(4, "mean") == ("last", "sum_last_four", "concatenate_last_four", "mix")
    assert usual_layers(4, "max") == ("last", "sum_last_four", "concatenate_last_four")
    assert usual_layers(3, None) == ("last", "mix")


@pytest.mark.parametrize(
    ("layers", "depth", "pooling", "sentence"),
    [
        (
            ["lats"],
            2,
            "mean",
            "layers is 'lats'; known: a number from 0 to 2, concatenate_last_four, last, mix, "
            "sum_last_four. Did you mean 'last'?",
        ),
        (
            ["3"],
            2,
            "mean",
            "layers is '3'; this model has 2 layers; use 0 (the embeddings) to 2, or a negative "
            "number that counts from the last.",
        ),
        (
            ["last", "sum_last_four"],
            3,
            "mean",
            "layers is 'sum_last_four'; it needs four layers, and this model has 3; leave it out, "
            "or use a deeper model.",
        ),
        (
            ["last", "mix"],
            4,
            "max",
            "pooling is 'max'; layers can be mixed only with linear poolings: first, mean; choose "
            "one of these, or leave out mix.",
        ),
        (
            ["last", "last"],
            4,
            None,
            "layers is ['last', 'last']; it lists 'last' twice; remove one.",
        ),
        (
            [],
            4,
            None,
            "layers is empty; name at least one of: last, sum_last_four, concatenate_last_four, "
            "mix.",
        ),
        (
            ["last"],
            4,
            "attention",
            "pooling is 'attention'; known: first, max, mean.",
        ),
    ],
)
def test_layers_that_a_model_does_not_have(layers, depth, pooling, sentence):
    with pytest.raises(ClozeworksError) as caught:
        check_layers(layers, depth, pooling)
    assert str(caught.value) == sentence


class TestRegressions:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(90, 6)) * [1, 5, 0.1, 2, 1, 1] + [0, 9, 3, -4, 0, 0]).astype("f4")
    noise = rng.normal(size=90)

    def expected(self, model, right):
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), model).fit(self.x.astype(np.float64), right)

    @pytest.mark.parametrize("labels", [2, 3])
    def test_one_label_equals_scikit_learn_on_standardised_vectors(self, labels):
        from sklearn.linear_model import LogisticRegression

        right = np.digitize(self.x[:, 0] + self.noise, [0, 1][: labels - 1])
        (found,) = fitted(self.x, right, "one", labels, [0.1])
        raised = np.exp(found.logits(self.x))
        shares = raised / raised.sum(axis=1, keepdims=True)
        theirs = self.expected(LogisticRegression(C=0.1), right).predict_proba(self.x)
        np.testing.assert_allclose(shares, theirs, atol=2e-4)
        assert found.converged

    def test_several_labels_are_as_many_regressions(self):
        from sklearn.linear_model import LogisticRegression

        right = np.stack([self.x[:, 0] > 0, self.x[:, 3] + self.noise > -4], axis=1)
        (found,) = fitted(self.x, right.astype(np.float32), "several", 2, [1.0])
        shares = 1 / (1 + np.exp(-found.logits(self.x)))
        for column in (0, 1):
            theirs = self.expected(LogisticRegression(), right[:, column]).predict_proba(self.x)
            np.testing.assert_allclose(shares[:, column], theirs[:, 1], atol=1e-3)

    def test_numbers_are_a_ridge(self):
        from sklearn.linear_model import Ridge

        right = 100 + 3 * self.x[:, 1] + self.noise
        weak, strong = fitted(self.x, right, "number", 1, [0.01, 1.0])
        for found, alpha in ((weak, 100), (strong, 1)):
            theirs = self.expected(Ridge(alpha=alpha), right).predict(self.x)
            np.testing.assert_allclose(found.logits(self.x)[:, 0], theirs, rtol=1e-5)

    def test_a_label_that_no_row_has_never_comes_out(self):
        right = np.where(self.x[:, 0] > 0, 2, 0)
        (found,) = fitted(self.x, right, "one", 4, [1.0])
        assert set(found.logits(self.x).argmax(axis=1)) == {0, 2}
        (only,) = fitted(self.x, np.full(90, 3), "one", 4, [1.0])
        assert set(only.logits(self.x).argmax(axis=1)) == {3}

    def test_what_does_not_vary_is_not_read(self):
        still = np.concatenate([self.x, np.full((90, 1), 7, np.float32)], axis=1)
        still[::2, 6] = np.nextafter(np.float32(7), np.float32(8))
        assert (Scaling.of(still)(still)[:, 6] == 0).all()
        (found,) = fitted(still, (np.arange(90) % 2), "one", 2, [10.0])
        assert (found.weight[:, 6] == 0).all() and np.isfinite(found.bias).all()

    def test_a_fit_that_does_not_come_to_an_end_is_known(self, monkeypatch):
        monkeypatch.setattr("clozeworks.inference.features._STEPS", 1)
        (found,) = fitted(self.x, (self.x[:, 0] > 0).astype(int), "one", 2, [10.0])
        assert not found.converged


class TestMix:
    """Three layers of width 4; the second knows the answer."""

    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 12)).astype(np.float32)

    @pytest.fixture(autouse=True)
    def one_thread(self):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)

    @pytest.mark.parametrize("problem", ["one", "several", "number"])
    def test_the_layer_that_knows_counts_most(self, problem):
        known = self.x[:, 4] * 2 - self.x[:, 6]
        right = {"one": (known > 0).astype(int), "number": known + 50}.get(problem)
        right = (known > 0)[:, None].astype(np.float32) if right is None else right
        labels = 2 if problem == "one" else 1
        mix = learned_mix(self.x, right, problem, labels, 3)
        assert mix.weights[1] > 0.8 and sum(mix.weights) == pytest.approx(1)
        assert learned_mix(self.x, right, problem, labels, 3).weights == mix.weights
        scaled = Scaling.of(self.x)(self.x)
        expected = sum(share * scaled[:, 4 * n : 4 * n + 4] for n, share in enumerate(mix.weights))
        np.testing.assert_allclose(mix(self.x), expected, atol=1e-6)

    def test_layers_that_know_a_part_each_are_shared(self):
        # The same dimension of two layers, each with noise of its own: their mean knows more.
        known = self.rng.normal(size=200)
        x = self.x.copy()
        for column in (0, 4, 8):
            x[:, column] = known + 1.5 * self.rng.normal(size=200)
        mix = learned_mix(x, known, "number", 1, 3)
        assert all(0.2 < share < 0.5 for share in mix.weights)
