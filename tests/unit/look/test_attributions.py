"""Attributions: exact where the integral is known, complete on a trained classifier, controlled."""

import json
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import clozeworks as cw
from clozeworks.errors import InputError, SettingError, UnknownName, UnsupportedError
from clozeworks.inference.loop import Cancelled
from clozeworks.look.attributions import TokenPath, gauss_legendre, integrated_gradients
from clozeworks.look.pieces import encode_pieces
from clozeworks.look.targets import AttributionTarget
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.tag import Tag

TEXT, GAP = "The cat sat on the mat.", "The cat sat on the [MASK]."
KINDS = ("bert", "roberta", "albert", "deberta", "modernbert", "xlnet")


def trapezoid(steps):
    """The weights of captum's riemann_trapezoid."""
    weights = np.full(steps, 1 / steps)
    weights[[0, -1]] /= 2
    return np.linspace(0, 1, steps), weights


def path_of(model, text, score):
    _, pieces = encode_pieces(model.tokenizer, text)
    moves = tuple(not piece.special for piece in pieces)
    target = AttributionTarget("label", "a sum", (text,), pieces, moves, score)
    return TokenPath(model.model, target, torch.zeros(model.model.blueprint.width)), pieces


@pytest.mark.parametrize(("degree", "steps"), [(1, 1), (2, 1), (4, 2)])
def test_polynomials_are_exact(inside, degree, steps):
    model = inside("bert")
    table = model.model.embeddings.tokens.weight.detach().double()

    def score(changed, ids):
        return (changed.embeddings.tokens(ids) ** degree).sum(dim=(1, 2))

    path, pieces = path_of(model, TEXT, score)
    found = integrated_gradients(path, steps)
    exact = [(table[p.id] ** degree).sum().item() * (not p.special) for p in pieces]
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-6)


def test_the_trapezoid_of_others_is_too_small(inside):
    def score(changed, ids):
        return changed.embeddings.tokens(ids).sum(dim=(1, 2))

    path, _ = path_of(inside("bert"), TEXT, score)
    right = integrated_gradients(path, 50).sum()
    nodes, weights = trapezoid(50)
    along = path.gradients(nodes.tolist())
    theirs = sum(w * each.times_way.sum() for w, each in zip(weights, along, strict=True))
    assert theirs / right == pytest.approx(49 / 50, abs=1e-4)
    assert gauss_legendre(50)[1].sum() == pytest.approx(1)


@pytest.fixture(scope="module")
def classifier(inside):
    """A classifier that learned that one word decides."""
    model = inside("bert").for_task(Classify(labels=("bad", "good")))
    words = ["the", "cat", "sat", "on", "mat", "and", "dog", "lay", "rug"]
    generator = np.random.default_rng(0)
    rows = []
    for number in range(64):
        text = list(generator.choice(words, 6))
        text[generator.integers(6)] = ("France", "Seine")[number % 2]
        rows.append((" ".join(text), number % 2))
    optimizer = torch.optim.Adam(model.model.parameters(), lr=3e-3)
    task = model.task
    from clozeworks.inference.packing import pack

    batch = pack(model.tokenizer.encode([text for text, _ in rows]), torch.device("cpu"))
    labels = torch.tensor([label for _, label in rows])
    for _ in range(60):
        optimizer.zero_grad()
        states, layout = task.hidden_states(model.model, batch.ids, batch.layout, batch.types)
        loss = F.cross_entropy(task.logits(model.model, states, layout), labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    model.model.eval()
    for parameter in model.model.parameters():
        parameter.grad = None
    return model


DECIDES = "the cat sat on Seine mat and the dog"


def test_a_trained_classifier_is_explained_by_its_word(classifier):
    view = classifier.look.attribute(DECIDES, label="good")
    assert view.steps == 50
    assert view.rest_fraction <= 0.01
    assert view.value == pytest.approx(
        classifier.logits(DECIDES, head="classes").logits[1], rel=1e-4
    )
    best = max(view.words, key=lambda word: word.integrated)
    assert best.text == "Seine"
    assert max(view.words, key=lambda word: word.left_out or 0).text == "Seine"
    assert sum(each.integrated for each in view.words) == pytest.approx(sum(view.piece_values))
    assert all(each.grad is None for each in classifier.model.parameters())


def test_controls(classifier):
    found = [
        classifier.look.control(
            classifier.look.attribute(text, label="good", leave_out=False), text, label="good"
        )
        for text in (
            DECIDES,
            "the Seine and a dog on the rug sat",
            "dog lay on the rug and Seine cat",
        )
    ]
    assert np.mean([each.faster for each in found]) >= 0.95
    assert abs(np.mean([each.random_weights for each in found])) < 0.5
    assert len(found[0].deletion) == 10
    assert found[0].deletion[0] == pytest.approx(found[0].random_deletion[0])
    assert json.dumps(found[0].to_dict())


def test_each_baseline_is_complete(classifier):
    values = set()
    for baseline in ("mask", "pad", "zero", "mean"):
        view = classifier.look.attribute(DECIDES, baseline=baseline, leave_out=False, steps=20)
        assert view.baseline == baseline
        assert view.rest_fraction < 0.05
        values.add(round(view.baseline_value, 4))
    assert len(values) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_word_in_a_gap(inside, kind):
    model = inside(kind)
    model.fill(GAP)  # whatever inference keeps does not disturb gradients
    view = model.look.attribute(GAP, steps=20)
    best = model.fill(GAP, top=1).gaps[0][0]
    assert view.value == pytest.approx(np.log(best.score), abs=1e-4)
    assert view.rest_fraction < 0.05
    gap = next(word for word in view.words if "MASK" in word.text or "mask" in word.text)
    assert gap.integrated == 0


def test_what_follows_a_text(inside):
    model = inside("gpt2")
    view = model.look.attribute("The cat sat", target=" on the mat", token=1)
    scored = model.score("The cat sat", " on the mat")
    assert scored is not None
    assert view.rest_fraction < 0.05
    whole = model.look.attribute("The cat sat", target=" on the mat")
    assert whole.value == pytest.approx(scored.total, abs=1e-3)
    assert model.look.attribute("The cat sat").target.endswith("which follows")


def test_what_is_written_depends_on_both_texts(inside):
    view = inside("t5").look.attribute("The cat sat.", target="the dog lay", token=2)
    assert {word.part for word in view.words} == {0, 1}
    assert view.rest_fraction < 0.05
    assert any(word.integrated for word in view.words if word.part == 1)


def test_labels_of_words_pairs_and_answers(inside):
    bert = inside("bert")
    tagger = bert.for_task(Tag(labels=("O", "B-X")))
    view = tagger.look.attribute(TEXT, word=1, label="B-X", leave_out=False)
    assert view.target == "the logit of B-X for cat"
    pair = bert.for_task(Compare(labels=("no", "yes"))).look.attribute((TEXT, "A dog."), steps=20)
    assert {word.part for word in pair.words} == {0, 1}
    answer = bert.for_task(Answer()).look.attribute(("Who sat?", TEXT), steps=20)
    assert answer.target.startswith("the logits of the answer")
    for each in (view, pair, answer):
        assert each.rest_fraction < 0.05


@pytest.mark.parametrize("kind", ["t5", "gpt2", "xlnet", "modernbert"])
def test_labels_of_every_kind_even_where_a_decoder_reads_the_text_again(inside, kind):
    model = inside(kind).for_task(Classify(labels=("a", "b")))
    view = model.look.attribute(TEXT, label="b", steps=20, leave_out=False)
    logits = model.logits(TEXT, head=model.task.head).logits
    assert view.value == pytest.approx(float(logits[1]), abs=1e-5)
    assert view.rest_fraction < 0.05
    assert any(word.integrated for word in view.words)


def test_what_makes_two_texts_similar(inside):
    model = inside("bert")
    view = model.look.attribute(TEXT, other="The dog lay on the rug.", steps=20)
    vectors = model.embed([TEXT, "The dog lay on the rug."])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert view.value == pytest.approx(float(unit[0] @ unit[1]), abs=1e-5)
    record = json.loads(json.dumps(view.to_dict()))
    assert record["notes"][1].startswith("Shares sum to")


def test_it_can_be_cancelled_and_runs_in_several_threads(classifier):
    with pytest.raises(Cancelled):
        classifier.look.attribute(DECIDES, cancelled=lambda: True)
    found = {}

    def run(number):
        text = DECIDES + " rug" * number
        found[number] = classifier.look.attribute(text, steps=5, leave_out=False)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = classifier.look.attribute(DECIDES + " rug" * 2, steps=5, leave_out=False)
    assert found[2].piece_values == pytest.approx(alone.piece_values, abs=1e-5)


def test_refusals(inside, classifier):
    with pytest.raises(UnknownName, match="'nice'; known: bad, good"):
        classifier.look.attribute(TEXT, label="nice")
    with pytest.raises(InputError, match=r"read through .* windows, and an attribution is of one"):
        classifier.look.attribute("the cat " * 400)
    with pytest.raises(SettingError, match="baseline is 'blank'; it must be one of: mask, pad"):
        classifier.look.attribute(TEXT, baseline="blank")
    with pytest.raises(SettingError, match="the tokenizer has no mask token; use zero or mean"):
        inside("gpt2").look.attribute("The cat", baseline="mask")
    with pytest.raises(InputError, match="0 gaps, and gap is 0"):
        inside("bert").look.attribute(TEXT)
    with pytest.raises(UnsupportedError, match="no head for labels; leave out label"):
        inside("bert").look.attribute(GAP, label="good")
    with pytest.raises(SettingError, match="token is 9; the target has"):
        inside("gpt2").look.attribute("The cat", target=" sat", token=9)
    with pytest.raises(SettingError, match="each of 7 words has a label; give the number"):
        inside("bert").for_task(Tag(labels=("O", "B-X"))).look.attribute(TEXT)
    headless = cw.new("bert-tiny", inside("bert").tokenizer, heads=())
    with pytest.raises(UnsupportedError, match="attribute the similarity of two texts"):
        headless.look.attribute(TEXT)
