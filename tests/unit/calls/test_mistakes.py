"""Whatever is wrong with a call gets a sentence that names the argument."""

from pathlib import Path

import pandas
import pytest
import torch.nn.functional as F

import clozeworks as cw
from clozeworks.errors import (
    InputError,
    SettingError,
    UnknownName,
)

SMALL = {"lr": 0.01, "batch_size": 8, "epochs": 1}
FRAME = pandas.DataFrame({"text": ["a good cat", "a bad dog"] * 20, "label": ["yes", "no"] * 20})


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"model": 3}, SettingError,
         "model is the number 3; it must be a model, a model folder or a hub name."),
        ({"data": None}, SettingError, "data is missing; it must be a file"),
        ({"data": 3}, InputError, "data is the number 3; give a file or a list of files"),
        ({"task": None}, SettingError,
         "task is missing; the model does not say what it was trained for; name one of: answer, "),
        ({"task": "clasify"}, UnknownName, "Did you mean 'classify'?"),
        ({"task": 3}, SettingError, "task is 3; it must be a task, or the name of one"),
        ({"task": cw.tasks.Classify(labels=("a", "b"))}, SettingError,
         "task.labels is ['a', 'b']; the data has no, yes; labels come from the data"),
        ({"callbacks": "print"}, SettingError,
         "callbacks is a text; it must be a list of callbacks, which are objects of classes "
         "derived from cw.Callback."),
        ({"callbacks": [print]}, SettingError, "it must be a list of callbacks"),
        ({"loss": "focal"}, SettingError,
         "loss is a text; it must be a function of logits and labels."),
        ({"loss": F.cross_entropy}, SettingError,
         "loss is the function cross_entropy; it returned a tensor of one number, and must return "
         "a tensor with one number for each of the "),
        ({"loss": F.cross_entropy, "label_loss": {"smoothing": 0.1}}, SettingError,
         "loss is set; label_loss is set, too; leave one of them out."),
        ({"metric": 3}, SettingError,
         "metric is the number 3; it must be a function of what is right and what was predicted."),
        ({"metric": "acuracy"}, UnknownName, "Did you mean 'accuracy'?"),
        ({"epoch": 3}, UnknownName, "An argument of finetune is 'epoch'; known: "),
        ({"num_train_epochs": 3}, UnknownName, "Did you mean 'epochs'?"),
        ({"output_dir": "run"}, UnknownName, "Did you mean 'out'?"),
        ({"eval_dataset": FRAME}, UnknownName, "Did you mean 'dev'?"),
        ({"callback": []}, UnknownName, "Did you mean 'callbacks'?"),
        ({"tensorboard": True}, UnknownName, "Did you mean 'trackers'?"),
        ({"trackers": "wandbb"}, SettingError, "trackers[0] is 'wandbb'; it must be one of "),
        ({"task": "text-classification"}, UnknownName, "Did you mean 'classify'?"),
        ({"epochs": 0}, SettingError, "epochs is 0.0; it must be above 0."),
        ({"lr": "fast"}, SettingError, "lr is 'fast'; it must be float."),
        ({"selection": 3}, SettingError,
         "selection is 3; it must be a table of settings: patience"),
        ({"out": 3}, SettingError, "out is the number 3; it must be a folder."),
        ({"data": FRAME[["text"]]}, InputError,
         'needs them; name their column with columns={"label": "NAME"}.'),
        ({"data": FRAME.assign(text=None)}, InputError, "or drop them with skip_bad_rows=True."),
        ({"columns": {"text": "review"}}, InputError, "data has no column 'review'"),
        ({"columns": {"txt": "text"}}, UnknownName, "columns for classify is 'txt'"),
        ({"columns": 3}, SettingError, "columns is 3; it must say which column is what"),
        ({"dev": FRAME[["text"]]}, InputError, "dev has no labels"),
        ({"dev_fraction": 2.0}, SettingError, "dev_fraction is 2.0; it must be"),
    ],
)  # fmt: skip
def test_mistakes_get_a_sentence(start, arguments, error, sentence):
    given = {"model": start, "data": FRAME, "task": "classify", "quiet": True, **SMALL, **arguments}
    model, data = given.pop("model"), given.pop("data")
    with pytest.raises(error) as caught:
        cw.finetune(model, data, **given)
    assert sentence in str(caught.value)
    assert "--" not in str(caught.value)
    if error is not SettingError or "cross_entropy" not in sentence:
        assert not Path("runs").exists()


def test_a_class_that_is_no_dataclass_is_refused(start, tuned):
    class Bare(cw.tasks.Task):
        pass

    with pytest.raises(SettingError, match="a task is a frozen dataclass; write @spec"):
        tuned(start, task=Bare)
    Bare.is_slot = True  # no other test finds it


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda model: cw.evaluate(3, FRAME), "model is the number 3"),
        (
            lambda model: model.for_task(cw.tasks.Classify(labels=("a", "b"))).predict(
                FRAME[["label"]].assign(label=1)
            ),
            'name it with columns={"text": "NAME"}.',
        ),
        (lambda model: cw.load(3), "name is the number 3; it must be a folder or a hub name."),
        (lambda model: cw.evaluate(model, FRAME, batch=3), "An argument of evaluate is 'batch'"),
        (
            lambda model: model.embed("a", batches=3),
            "An argument of embed is 'batches'; known: batch_tokens, cancelled, max_length",
        ),
        (
            lambda model: model.embed("a", progress="bar"),
            "progress is 'bar'; it must be True, or a",
        ),
        (
            lambda model: model.embed("a", batch_tokens="1"),
            "batch_tokens is '1'; it must be a whole",
        ),
        (lambda model: model.embed("a", show_progress_bar=True), "Did you mean 'progress'?"),
        (lambda model: model.embed("a", normalize_embeddings=True), "Did you mean 'normalize'?"),
        (
            lambda model: cw.finetune(model, FRAME.text, FRAME.label, task="classify"),
            "the third argument is a value of type Series; after the data, settings to change "
            "follow, such as 'training.epochs=5'; give texts and labels together: "
            '{"text": texts, "label": labels}.',
        ),
        (lambda model: cw.pretrain(3), "recipe is int; it must be a TOML file, the name of a"),
        (lambda model: cw.pretrain({}, step=3), "An argument of pretrain is 'step'"),
        (
            lambda model: cw.finetune({}, FRAME),
            "data is a value of type DataFrame; after a recipe,",
        ),
        (
            lambda model: cw.finetune({}, task="tag"),
            "task is set; the recipe says it; leave it out.",
        ),
    ],
)
def test_other_calls_get_a_sentence(start, call, sentence):
    with pytest.raises(cw.ClozeworksError) as caught:
        call(start)
    assert sentence in str(caught.value)
