"""Estimators: they behave as scikit-learn's own do, alone and in its tools."""

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks

import clozeworks as cw
from clozeworks.errors import InputError, SettingError
from clozeworks.sklearn import TextClassifier, TextEmbedder, TextRegressor
from clozeworks.text.training.train import train_from_iterator

TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TINY |= {"intermediate_size": 32, "max_position_embeddings": 64}
TEXTS = [f"{('the dog barks', 'a cat sleeps')[n % 2]} {('here', 'there')[n % 3 == 0]}" for n in range(24)]  # fmt: skip # noqa: E501
WORDS = np.array([("dog", "cat")[n % 2] for n in range(24)])
# Those of scikit-learn's checks that need no numbers as data.
CHECKS = [
    checks.check_estimator_cloneable,
    checks.check_estimator_tags_renamed,
    checks.check_valid_tag_types,
    checks.check_estimator_repr,
    checks.check_no_attributes_set_in_init,
    checks.check_mixin_order,
    checks.check_get_params_invariance,
    checks.check_set_params,
    checks.check_estimators_unfitted,
    checks.check_do_not_raise_errors_in_init_or_set_params,
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tokenizer = train_from_iterator(TEXTS, kind="wordpiece", size=60)
    folder = tmp_path_factory.mktemp("model")
    return str(cw.new("bert-tiny", tokenizer, **TINY).save(folder / "model"))


@pytest.fixture
def settings(model):
    return {"model": model, "epochs": 12, "learning_rate": 2e-2, "batch_size": 8, "random_state": 0}


@pytest.fixture
def nothing_left(tmp_path, monkeypatch):
    """No temporary folder is left at the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.glob("clozeworks-*")) == []


def test_a_classifier_learns_and_is_copied_whole(settings, nothing_left, capfd):
    fitted = TextClassifier(**settings).fit(pd.Series(TEXTS), WORDS)
    assert capfd.readouterr() == ("", "")
    assert fitted.classes_.tolist() == ["cat", "dog"]
    assert fitted.predict(TEXTS).tolist() == WORDS.tolist()
    assert fitted.score(TEXTS, WORDS) == 1.0
    probabilities = fitted.predict_proba(np.array(TEXTS[:3]))
    assert probabilities.shape == (3, 2) and np.allclose(probabilities.sum(1), 1)
    assert probabilities.argmax(1).tolist() == [1, 0, 1]
    assert fitted.model_.task.labels == ("cat", "dog")
    assert fitted.model_.name == f"{settings['model']}, fine-tuned"
    for twin in (
        pickle.loads(pickle.dumps(fitted)),
        copy.deepcopy(fitted),
        clone(fitted).fit(pd.DataFrame({"text": TEXTS}), WORDS),  # reproducible
    ):
        assert (twin.predict_proba(TEXTS[:3]) == probabilities).all()
        assert twin.model_.name == fitted.model_.name
    settings["random_state"] = 1
    other = TextClassifier(**settings).fit(TEXTS, WORDS)
    assert (other.predict_proba(TEXTS[:3]) != probabilities).any()


def test_pickles_hold_files_and_no_weights_of_torch(model):
    state = pickle.dumps(TextEmbedder(cw.load(model)).fit(TEXTS))
    assert b"torch" not in state and b"model.safetensors" in state


def test_labels_of_any_type_come_back(settings):
    fitted = TextClassifier(**settings | {"epochs": 1}).fit(TEXTS, WORDS == "dog")
    assert fitted.predict(TEXTS[:2]).dtype == bool
    same = np.array([" a" if word == "dog" else "a" for word in WORDS], dtype=object)
    fitted = TextClassifier(**settings).fit(TEXTS, same)  # names that a file would not tell apart
    assert fitted.predict(TEXTS[:2]).tolist() == [" a", "a"]


@pytest.mark.parametrize("form", ["lists", "matrix", "frame", "sparse"])
def test_several_labels(settings, form):
    lists = [["animal", word] if number else [] for number, word in enumerate(WORDS.tolist())]
    names = ["animal", "cat", "dog", "fish"]
    matrix = np.array([[name in each for name in names] for each in lists]).astype(int)
    y = {
        "lists": lists,
        "matrix": matrix,
        "frame": pd.DataFrame(matrix, columns=names),
        "sparse": csr_matrix(matrix),
    }[form]
    fitted = TextClassifier(**settings | {"epochs": 40}).fit(TEXTS, y)
    if form == "lists":
        assert fitted.classes_.tolist() == ["animal", "cat", "dog"]
        assert fitted.predict(TEXTS[1:3]) == [("animal", "cat"), ("animal", "dog")]
    else:
        columns = names if form == "frame" else [0, 1, 2, 3]
        assert fitted.classes_.tolist() == columns
        assert fitted.predict(TEXTS[1:3]).tolist() == [[1, 1, 0, 0], [1, 0, 1, 0]]
        assert fitted.predict_proba(TEXTS[:1])[0, 3] == 0.0  # no text has it
    assert fitted.score(TEXTS, y) == pytest.approx(23 / 24)


def test_pairs_of_texts(settings):
    pairs = [(text, TEXTS[number % 2]) for number, text in enumerate(TEXTS)]
    fitted = TextClassifier(**settings).fit(pd.DataFrame(pairs), WORDS)
    assert fitted.score(np.array(pairs), WORDS) == 1.0
    with pytest.raises(InputError) as error:
        fitted.predict(TEXTS)
    assert str(error.value) == (
        "X holds texts, and the estimator was fitted with pairs; give pairs."
    )


def test_numbers(settings):
    numbers = np.where(WORDS == "dog", 10.0, 20.0)
    fitted = TextRegressor(**settings | {"epochs": 20}).fit(TEXTS, numbers)
    assert fitted.predict(TEXTS).shape == (24,) and fitted.score(TEXTS, numbers) > 0.5
    with pytest.raises(InputError) as error:
        fitted.fit(TEXTS, [np.nan, *numbers[1:]])
    assert str(error.value) == ("y, row 0 is nan; it must be a finite number; leave the row out.")
    for labels in (np.array([1.0, 0.0, np.nan]), ["a", "b", np.nan]):
        with pytest.raises(InputError) as error:
            TextClassifier(**settings).fit(TEXTS[:3], np.asarray(labels, dtype=object))
        assert str(error.value) == "y, row 2 is nan; it must be a label; leave the row out."


def test_vectors_in_a_pipeline(model):
    embedder = TextEmbedder(model, pooling=["mean", "max"])
    vectors = embedder.fit_transform(TEXTS)
    assert vectors.shape == (24, 32) and vectors.dtype == np.float32
    assert (vectors == cw.load(model).embed(TEXTS, pooling=["mean", "max"])).all()
    assert list(embedder.get_feature_names_out()[:2]) == ["textembedder0", "textembedder1"]
    frame = clone(embedder).set_output(transform="pandas").fit_transform(pd.DataFrame(TEXTS))
    assert frame.columns[31] == "textembedder31" and (frame.to_numpy() == vectors).all()
    pipeline = make_pipeline(embedder, LogisticRegression(C=100))
    assert cross_val_score(pipeline, TEXTS, WORDS, cv=2).tolist() == [1.0, 1.0]
    assert cross_val_score(
        clone(make_pipeline(TextEmbedder(cw.load(model)), LogisticRegression(C=100))),
        TEXTS, WORDS, cv=2,
    ).tolist() == [1.0, 1.0]  # fmt: skip


def test_a_grid_search(settings):
    search = GridSearchCV(TextClassifier(**settings), {"epochs": [0.5, 12]}, cv=2)
    search.fit(TEXTS, WORDS)
    assert search.best_params_ == {"epochs": 12}
    assert search.best_estimator_.score(TEXTS, WORDS) == 1.0


@pytest.mark.slow
def test_several_processes(settings):
    search = GridSearchCV(TextClassifier(**settings), {"epochs": [1, 12]}, cv=2, n_jobs=2)
    assert search.fit(TEXTS, WORDS).best_params_ == {"epochs": 12}


def test_settings_reach_the_recipe(settings, capfd):
    wrong = TextClassifier(**settings, settings={"training": {"layer_decay": 7}})
    with pytest.raises(SettingError, match=r"^training\.layer_decay is 7\.0; it must be"):
        wrong.fit(TEXTS, WORDS)
    for name, value, sentence in (
        ("max_length", 1000, "max_length is 1,000; this model takes at most 64 tokens; lower it."),
        ("epochs", -1, "epochs is -1.0; it must be above 0."),
        ("validation_fraction", 2, "validation_fraction is 2.0; it must be above 0 and below 1."),
    ):
        with pytest.raises(SettingError) as error:
            TextClassifier(**settings | {name: value}).fit(TEXTS, WORDS)
        assert str(error.value) == sentence
    shown = TextClassifier(**settings | {"epochs": 1}, validation_fraction=0.25, verbose=1)
    shown.fit(TEXTS, WORDS)
    assert "18 items to learn from, 6 to be judged by." in capfd.readouterr().err


WRONG = [
    ("a text", "X is a text; it must be a list, an array or a series of texts, or a frame of one "
     "column, or of two for pairs."),
    ([], "X is empty; there must be at least one text; give some."),
    (["a", 7], "X, row 1 is the number 7; it must be a text."),
    (["a", None], "X, row 1 is None; it must be a text."),
    (["a", " "], "X, row 1 is empty; leave it out, or fill it in."),
    (np.full((2, 3), "a"), "X has the shape 2 × 3; it must be a list, an array or a series of "
     "texts, or a frame of one column, or of two for pairs."),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "sentence"), WRONG)
def test_what_is_not_a_text_is_said(texts, sentence, model):
    for estimator in (TextClassifier(model), TextEmbedder(model)):
        with pytest.raises(InputError) as error:
            estimator.fit(texts, ["x"] * len(texts))
        assert str(error.value) == sentence


def test_what_else_is_wrong_is_said(model):
    with pytest.raises(InputError, match=r"^X has two columns; vectors are made of one text each"):
        TextEmbedder(model).fit([("a", "b")])
    with pytest.raises(InputError, match=r"^y is None; a classifier learns from labels; give one"):
        TextClassifier(model).fit(TEXTS, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TextClassifier(model).fit(TEXTS, WORDS[1:])
    with pytest.raises(NotFittedError):
        TextClassifier(model).predict(TEXTS)


@pytest.mark.parametrize("kind", [TextClassifier, TextRegressor, TextEmbedder])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_check_of_scikit_learn(check, kind, model):
    check(kind.__name__, kind(model))


@pytest.mark.parametrize("kind", [TextClassifier, TextRegressor, TextEmbedder])
def test_the_other_checks_are_skipped_as_for_text_vectorizers(kind, model):
    with pytest.warns(SkipTestWarning, match="Can't test estimator"):
        checks.check_estimator(kind(model))


def test_kinds():
    assert is_classifier(TextClassifier("m")) and is_regressor(TextRegressor("m"))
    assert Path(TextClassifier(Path("m")).get_params()["model"]) == Path("m")
