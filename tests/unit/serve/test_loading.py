"""From what a person names to what is served: equal weights stand in memory once."""

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.errors import InputError
from clozeworks.serve.loading import bytes_of, served_models, share_weights
from clozeworks.tasks.classify import Classify


def test_equal_weights_stand_in_memory_once(tiny_models):
    first, second = (cw.load(tiny_models["bert"]) for _ in range(2))
    third = cw.load(tiny_models["bert"]).for_task(Classify(labels=("a", "b")))
    before = [model.embed("the cat") for model in (first, second, third)]
    saved = share_weights([first.model, second.model, third.model])
    own = {each.data_ptr() for each in first.model.parameters()}
    assert {each.data_ptr() for each in second.model.parameters()} == own
    alone = [each for each in third.model.parameters() if each.data_ptr() not in own]
    assert 0 < len(alone) < len(own) and saved > bytes_of(second)
    for model, vector in zip((first, second, third), before, strict=True):
        np.testing.assert_array_equal(model.embed("the cat"), vector)
    # Weights of one model that happen to be equal stay what they are.
    assert share_weights([first.model]) == 0


def test_adapters_of_one_model_share_it(tiny_models, tmp_path):
    rows = [{"text": f"the {word} sat", "label": word} for word in ("cat", "dog")] * 4
    folders = []
    for seed in (0, 1):
        result = cw.finetune(
            tiny_models["bert"], rows, dev=rows, task="classify", out=tmp_path / str(seed),
            steps=1, seed=seed, quiet=True, lora={"rank": 2},
        )  # fmt: skip
        folders.append(result.model)
    names = {"base": tiny_models["bert"], "one": folders[0], "two": folders[1]}
    served = served_models({name: str(folder) for name, folder in names.items()})
    tables = {each.model.model.embeddings.tokens.weight.data_ptr() for each in served}
    assert len(tables) == 1


def test_widths_that_a_folder_states(tiny_models, tmp_path):
    model = cw.load(tiny_models["bert"])
    model.checkpoint.config["matryoshka_dimensions"] = [16, 8]
    folder = model.save(tmp_path / "nested")
    (served,) = served_models({"nested": folder}, truncate_dims={"nested": [4]})
    assert served.truncate_dims == (4, 8, 16)
    (plain,) = served_models({"plain": str(tiny_models["bert"])})
    assert plain.truncate_dims == () and not plain.model.model.training


def test_nothing_to_serve(tmp_path):
    with pytest.raises(InputError, match="name a model to serve"):
        served_models({})
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty"):
        served_models({"a": tmp_path / "empty", "b": tmp_path / "empty"})
    assert torch.get_num_threads() >= 1
