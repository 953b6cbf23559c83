"""Estimators for scikit-learn: texts are classified, rated or turned into vectors.

They go into pipelines, grid searches and cross-validation like any others. `X` is a list, an array
or a series of texts, or a frame of one column; for `TextClassifier` and `TextRegressor` two columns
are pairs of texts. A fitted estimator holds its model (`model_`), and is pickled with it: as bytes
of the files that `save` writes, which are read by `load` and not by pickle.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.metrics import accuracy_score  # type: ignore[import-untyped]
from sklearn.utils import (  # type: ignore[import-untyped]
    check_consistent_length,
    check_random_state,
    column_or_1d,
)
from sklearn.utils.multiclass import type_of_target  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from clozeworks.data.labelled.in_memory import value_in_words
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.embed import Vectors
from clozeworks.jobs.calls import finetune
from clozeworks.language_model import LanguageModel, load
from clozeworks.tasks.classify import Classified

# What settings are called here.
_ARGUMENTS = {"dev_fraction": "validation_fraction", "windows.length": "max_length"}
# A text, or a pair of texts.
Row = str | tuple[str, str]


class _ModelEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that holds models; they are pickled as the files they are saved as."""

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: _packed(value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: _unpacked(value) for name, value in state.items()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


class _FinetunedEstimator(_ModelEstimator):
    """An estimator that fine-tunes a model; `TextClassifier` explains the arguments."""

    def __init__(
        self,
        model: str | Path | LanguageModel,
        *,
        epochs: float | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        validation_fraction: float | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_length = max_length
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, rows: Sequence[Row], labels: Sequence[Any], kind: str) -> None:
        """Fine-tunes the model; nothing is left of the run but the model."""
        check_consistent_length(rows, labels)
        self._pairs = not isinstance(rows[0], str)
        settings = dict(self.settings or {})
        task = {"kind": "compare" if self._pairs else "classify", **settings.pop("task", {})}
        for argument in ("epochs", "learning_rate", "batch_size", "max_length"):
            if (value := getattr(self, argument)) is not None:
                settings[argument] = value
        dev = None
        if self.validation_fraction is not None:
            settings["dev_fraction"] = self.validation_fraction
        else:
            # Something must be measured; it is little, once, and chooses nothing.
            first = _first_of_each(labels)
            dev = _columns([rows[i] for i in first], [labels[i] for i in first])
            settings.setdefault("evaluation", {"every_steps": 0})
        settings.setdefault("logging", {"report": False})
        settings["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        with TemporaryDirectory(prefix="clozeworks-") as temporary:
            try:
                trained = finetune(
                    self.model,
                    _columns(rows, labels),
                    task=task,
                    dev=dev,
                    out=Path(temporary) / "run",
                    labels=kind,
                    device=self.device,
                    quiet=not self.verbose,
                    **settings,
                )
            except SettingError as error:
                raise error.respelled(lambda name: _ARGUMENTS.get(name, name)) from error
            self.model_ = trained.load(device=self.device)
        name = self.model.name if isinstance(self.model, LanguageModel) else self.model
        self.model_.name = f"{name}, fine-tuned"

    def _answers(self, X: Any) -> list[Classified]:  # noqa: N803
        check_is_fitted(self, "model_")
        rows = _rows(X)
        if isinstance(rows[0], str) == self._pairs:
            fitted, given = ("pairs", "texts") if self._pairs else ("texts", "pairs")
            raise InputError(
                f"X holds {given}, and the estimator was fitted with {fitted}; give {fitted}."
            )
        ask = self.model_.compare if self._pairs else self.model_.classify
        answers: list[Classified] = ask(rows)
        return answers


class TextClassifier(ClassifierMixin, _FinetunedEstimator):  # type: ignore[misc]
    """Fine-tunes a model to classify texts, or pairs of texts.

    Each text has one label of any type; or several, if `y` is a list of lists of labels or a binary
    matrix with a column for each label. Predictions have the form of `y`.

    Args:
        model: A model folder, a hub name, or a model.
        epochs: How often every text is seen; 3, and more if there are few texts, if not given.
        learning_rate: The peak learning rate; by the size of the model if not given.
        batch_size: Texts of a step; 32 if not given.
        max_length: The maximum number of tokens that are read at once; longer texts are read
            through several windows. The model's limit if not given.
        validation_fraction: How much of the texts is held out to choose the best weights by, as
            `evaluation` in `settings` says how often. If not given, all texts are learned from and
            the last weights are kept.
        settings: Other settings of a recipe for `clozeworks finetune`, as tables:
            `{"training": {"layer_decay": 0.9}, "lora": {"rank": 8}}`.
        device: Where to compute; the best there is for training, and the CPU for predictions, if
            not given.
        random_state: A number makes results reproducible.
        verbose: 1 shows the progress of training; 0 shows nothing.

    Attributes:
        classes_: The labels; for a binary matrix the names or numbers of its columns.
        model_: The fine-tuned model, to be saved with `model_.save(folder)`.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fine-tunes the model.

        Args:
            X: Texts, or pairs of texts.
            y: A label for each, several, or a binary matrix.

        Raises:
            InputError: If texts or labels cannot be used.
            SettingError: If a setting cannot be used.
        """
        rows = _rows(X)
        if y is None:
            raise InputError("y is None; a classifier learns from labels; give one for each text.")
        self._form = "one"
        if (matrix := _indicator(y)) is not None:
            self._form = "matrix"
            names = getattr(y, "columns", None)
            self.classes_ = np.arange(matrix.shape[1]) if names is None else np.asarray(names)
            labels: Sequence[Any] = [np.flatnonzero(row).tolist() for row in matrix]
        elif _are_lists(y):
            self._form = "lists"
            self.classes_ = np.unique([label for each in y for label in each])
            positions = {label: number for number, label in enumerate(self.classes_.tolist())}
            labels = [sorted({positions[_plain(label)] for label in each}) for each in y]
        else:
            column = column_or_1d(y, warn=True)
            if (absent := np.flatnonzero(column != column)).size:  # NaN differs from itself
                rule = "it must be a label; leave the row out"
                raise InputError(f"y, row {absent[0]:,} is nan; {rule}.")
            self.classes_, codes = np.unique(column, return_inverse=True)
            labels = codes.tolist()
        self._names = names_of = _label_names(self.classes_)
        if self._form == "one":
            self._train(rows, [names_of[code] for code in labels], "one")
        else:
            self._train(rows, [[names_of[code] for code in each] for each in labels], "several")
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probability of every label, in the order of `classes_`.

        Those of several labels are independent of each other and do not add up to 1.
        """
        answers = self._answers(X)
        # A label that no text had is not known to the model.
        return np.array([[a.scores.get(name, 0.0) for name in self._names] for a in answers])

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The label of each text, or its labels, in the form that `y` had."""
        answers = self._answers(X)
        if self._form == "one":
            numbers = {name: number for number, name in enumerate(self._names)}
            return self.classes_[[numbers[str(answer.label)] for answer in answers]]
        held = np.array([[name in _held(a) for name in self._names] for a in answers])
        if self._form == "matrix":
            return held.astype(np.int64)
        return [tuple(self.classes_[row].tolist()) for row in held]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """The accuracy; of several labels all must be right."""
        predicted = self.predict(X)
        if self._form == "lists":
            right = [set(map(_plain, each)) for each in y]
            hits = [set(p) == r for p, r in zip(predicted, right, strict=True)]
            return float(np.average(hits, weights=sample_weight))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


class TextRegressor(RegressorMixin, _FinetunedEstimator):  # type: ignore[misc]
    """Fine-tunes a model to predict a number for each text, or for each pair of texts.

    The arguments are those of `TextClassifier`.

    Attributes:
        model_: The fine-tuned model, to be saved with `model_.save(folder)`.
    """

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fine-tunes the model.

        Args:
            X: Texts, or pairs of texts.
            y: A number for each.

        Raises:
            InputError: If texts or numbers cannot be used.
            SettingError: If a setting cannot be used.
        """
        rows, numbers = _rows(X), column_or_1d(y, warn=True).astype(np.float64)
        if not np.isfinite(numbers).all():
            number = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise InputError(
                f"y, row {number:,} is {numbers[number]}; it must be a finite number; leave the "
                "row out."
            )
        self._train(rows, numbers.tolist(), "numbers")
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The number of each text."""
        return np.array([answer.label for answer in self._answers(X)], dtype=np.float64)


class TextEmbedder(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    _ModelEstimator,
):
    """Turns texts into vectors; nothing is learned.

    Args:
        model: A model folder, a hub name, or a model.
        prompt: Text put before each text, or the name of one of the model's prompts.
        pooling: Other poolings than the model's: first, mean, max, mean_sqrt_length, weighted_mean,
            last, or several of them.
        normalize: Whether vectors are scaled to length 1; as the model states if not given.
        truncate_dim: How many dimensions are kept, the first ones; vectors are scaled after that.
        max_length: The maximum number of tokens of a text; the model's limit if not given.
        truncate: Whether longer texts are truncated; otherwise they are an error.
        device: Where to compute; the CPU if not given.

    Attributes:
        model_: The model.
    """

    def __init__(
        self,
        model: str | Path | LanguageModel,
        *,
        prompt: str | None = None,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        max_length: int | None = None,
        truncate: bool = True,
        device: str | None = None,
    ) -> None:
        self.model = model
        self.prompt = prompt
        self.pooling = pooling
        self.normalize = normalize
        self.truncate_dim = truncate_dim
        self.max_length = max_length
        self.truncate = truncate
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Loads the model, and checks that it can turn these texts into vectors."""
        texts = _texts(X)
        if isinstance(self.model, LanguageModel):
            self.model_ = self.model if self.device is None else self.model.to(self.device)
        else:
            self.model_ = load(self.model, device=self.device)
        self._n_features_out = self._vectors(texts[:1]).shape[1]
        return self

    def transform(self, X: Any) -> Vectors:  # noqa: N803
        """One vector for each text, in float32."""
        check_is_fitted(self, "model_")
        return self._vectors(_texts(X))

    def _vectors(self, texts: list[str]) -> Vectors:
        return self.model_.embed(
            texts,
            prompt=self.prompt,
            pooling=self.pooling,
            normalize=self.normalize,
            truncate_dim=self.truncate_dim,
            max_length=self.max_length,
            truncate=self.truncate,
        )


@dataclass(frozen=True)
class _PackedModel:
    """A model as the files it is saved as."""

    files: dict[str, bytes]
    name: str
    device: str


def _packed(value: Any) -> Any:
    if not isinstance(value, LanguageModel):
        return value
    with TemporaryDirectory(prefix="clozeworks-") as temporary:
        folder = value.save(Path(temporary) / "model")
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    return _PackedModel(files, value.name, str(value.device))


def _unpacked(value: Any) -> Any:
    if not isinstance(value, _PackedModel):
        return value
    with TemporaryDirectory(prefix="clozeworks-") as temporary:
        for name, content in value.files.items():
            path = Path(temporary) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        model = load(temporary, device=value.device)
    model.name = value.name
    return model


def _rows(X: Any) -> list[Any]:  # noqa: N803
    """The texts of `X`, or its pairs of texts.

    Raises:
        InputError: If it holds something else, or nothing.
    """
    forms = "a list, an array or a series of texts, or a frame of one column, or of two for pairs"
    if isinstance(X, str | bytes | Mapping) or not (
        isinstance(X, Iterable) or hasattr(X, "__array__")
    ):
        raise InputError(f"X is {value_in_words(X)}; it must be {forms}.")
    if hasattr(X, "to_numpy"):
        cells = np.asarray(X.to_numpy(), dtype=object)
    elif isinstance(X, np.ndarray):
        cells = X.astype(object)
    else:
        several = list(X)
        pairs = bool(several) and all(isinstance(x, list | tuple) for x in several)
        width = len(several[0]) if pairs and len({len(x) for x in several}) == 1 else None
        cells = np.empty(len(several) if width is None else (len(several), width), dtype=object)
        if len(several):
            cells[:] = several
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim not in (1, 2) or (cells.ndim == 2 and cells.shape[1] != 2):
        shape = " × ".join(map(str, cells.shape))
        raise InputError(f"X has the shape {shape}; it must be {forms}.")
    if not len(cells):
        raise InputError("X is empty; there must be at least one text; give some.")
    for number, row in enumerate(cells):
        for text in row if cells.ndim == 2 else [row]:
            if not isinstance(text, str):
                raise InputError(f"X, row {number:,} is {value_in_words(text)}; it must be a text.")
            if not text.strip():
                raise InputError(f"X, row {number:,} is empty; leave it out, or fill it in.")
    if cells.ndim == 1:
        return list(map(str, cells))
    return [(str(first), str(second)) for first, second in cells]


def _texts(X: Any) -> list[str]:  # noqa: N803
    rows = _rows(X)
    if not isinstance(rows[0], str):
        raise InputError("X has two columns; vectors are made of one text each; give one column.")
    return rows


def _indicator(y: Any) -> NDArray[Any] | None:
    """A binary matrix of labels as an array; None if `y` is something else."""
    if hasattr(y, "toarray"):
        y = y.toarray()
    try:
        matrix = np.asarray(y)
        is_matrix = matrix.ndim == 2 and matrix.dtype.kind in "biuf"
        is_matrix = is_matrix and type_of_target(matrix) == "multilabel-indicator"
    except ValueError:  # lists of different lengths
        return None
    return matrix if is_matrix else None


def _are_lists(y: Any) -> bool:
    if isinstance(y, str | bytes) or not isinstance(y, Iterable):
        return False
    return all(isinstance(each, list | tuple | set | frozenset) for each in y)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _held(answer: Classified) -> tuple[str, ...]:
    assert isinstance(answer.label, tuple)
    return answer.label


def _label_names(classes: NDArray[Any]) -> list[str]:
    """What the model calls each class: its own name, where names can tell classes apart."""
    names = [str(each).strip() for each in classes.tolist()]
    return (
        names if all(names) and len({*names}) == len(names) else list(map(str, range(len(names))))
    )


def _first_of_each(labels: Sequence[Any]) -> list[int]:
    """The place of the first row of each label; of numbers that of the first two."""
    if isinstance(labels[0], float):
        return list(range(min(2, len(labels))))
    first: dict[str, int] = {}
    for number, label in enumerate(labels):
        for name in [label] if isinstance(label, str) else label:
            first.setdefault(name, number)
    return sorted({*first.values()}) or [0]


def _columns(rows: Sequence[Row], labels: Sequence[Any]) -> dict[str, list[Any]]:
    """Labelled rows as columns, with the names that tasks know."""
    if isinstance(rows[0], str):
        return {"text": list(rows), "label": list(labels)}
    first, second = zip(*rows, strict=True)
    return {"first": list(first), "second": list(second), "label": list(labels)}
