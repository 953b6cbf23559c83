"""`clozeworks init pretrain`: a recipe to begin with, which trains as it is."""

import json

from clozeworks.jobs.finetune.recipe import read_finetune_recipe
from clozeworks.jobs.pretrain.recipe import read_recipe


def test_the_recipe_that_is_written(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = command("init", "pretrain")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines() == [
        "recipe.toml: bert-tiny on corpus with the objective of bert, 10,000 steps.",
        "Make the corpus: clozeworks corpus build TEXTS --tokenizer DIR --out corpus",
        "Train with: clozeworks pretrain recipe.toml",
    ]
    recipe = read_recipe(tmp_path / "recipe.toml")
    given = {"run": "run", "model": {"start": "bert-tiny"}, "data": {"corpus": "corpus"}}
    assert recipe == read_recipe({**given, "objective": "bert", "training": {"steps": 10_000}})


def test_what_can_be_filled_in(tmp_path, command, corpus):
    path = tmp_path / "my recipe.toml"
    found = command(
        "init", "pretrain", path, "--corpus", corpus, "--size", "bert-mini",
        "--objective", "spanbert", "--run", tmp_path / "run",
    )  # fmt: skip
    assert found.out.splitlines()[1:] == [f"Train with: clozeworks pretrain '{path}'"]
    recipe = read_recipe(path)
    assert (recipe.run, recipe.data.corpus) == (str(tmp_path / "run"), str(corpus))
    assert recipe.model.start == "bert-mini"
    assert set(recipe.objective.loss_names) == {"masked_lm", "span_boundary"}


def test_it_trains_as_it_is(tmp_path, command, corpus):
    path, run = tmp_path / "recipe.toml", tmp_path / "run"
    command("init", "pretrain", path, "--corpus", corpus, "--run", run, "--objective", "roberta")
    small = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    changes = [f"model.config.{name}={value}" for name, value in small.items()]
    found = command("pretrain", path, "training.steps=2", "training.batch_tokens=512", *changes)
    assert found.code == 0, found.err
    assert f"Curves and everything else: {run / 'report.html'}" in found.out


def test_refusals(tmp_path, refused):
    path = tmp_path / "recipe.toml"
    path.write_text("mine")
    refused(f"{path} exists; name another file, or remove it first.", "init", "pretrain", path)
    refused(
        "--objective is 'brt'; known: albert, bert, byt5, deberta, deberta-v3, "
        "electra, gpt, gpt2, llama, mt5, prefix-lm, roberta, simcse, spanbert, t5, ul2, xlnet. "
        "Did you mean 'bert'?",
        "init", "pretrain", tmp_path / "other.toml", "--objective", "brt",
    )  # fmt: skip


def test_an_unknown_size(tmp_path, command):
    found = command("init", "pretrain", tmp_path / "a.toml", "--size", "bert-tinny")
    assert found.code == 2
    assert found.err.startswith("clozeworks: --size is 'bert-tinny'; known: ")
    assert found.err.endswith("Did you mean 'bert-tiny'?\n")


def test_a_recipe_that_comes_along_is_written_and_read(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = command("recipes")
    assert listed.code == 0 and "laptop-english\n" in listed.out and "bert-base\n" in listed.out
    facts = [
        json.loads(line) for line in command("recipes", "ul2", "t5-base", "--json").out.splitlines()
    ]
    assert [each["name"] for each in facts] == ["ul2", "t5-base"]
    assert all(each["about"] and each["model"] and each["steps"] for each in facts)
    done = command("init", "pretrain", "mine.toml", "--like", "laptop-english", "--corpus", "c")
    assert done.code == 0, done.err
    recipe = read_recipe(tmp_path / "mine.toml")
    assert recipe.data.corpus == "c" and "clozeworks pretrain mine.toml" in done.out
    wrong = command("init", "pretrain", "x.toml", "--like", "laptop-englisch")
    assert wrong.code == 2 and "Did you mean 'laptop-english'?" in wrong.err
    both = command("init", "pretrain", "x.toml", "--like", "ul2", "--size", "bert-tiny")
    assert "--size is 'bert-tiny'; --like ul2 states its own" in both.err


def test_a_recipe_of_fine_tuning_has_every_setting_of_its_task(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = command("init", "finetune", "tag", "--model", "my-model", "--train", "a.conll")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines() == [
        "recipe.toml: tag with my-model on a.conll; every setting is there.",
        "Train with: clozeworks finetune recipe.toml",
    ]
    recipe = read_finetune_recipe(tmp_path / "recipe.toml")
    assert (recipe.run, recipe.model, recipe.task["kind"]) == ("tag-run", "my-model", "tag")
    assert "#crf = false" in (tmp_path / "recipe.toml").read_text()


def test_the_recipe_of_fine_tuning_trains_as_it_is(tmp_path, command, tiny_models):
    rows = tmp_path / "rows.csv"
    lines = [f"the {word} is {word},{word}" for word in ("cat", "dog")]
    rows.write_text("\n".join(["text,label", *lines * 10]) + "\n")
    path, run = tmp_path / "my.toml", tmp_path / "run"
    typed = ["init", "finetune", "classify", path, "--model", tiny_models["bert"]]
    assert command(*typed, "--train", rows, "--run", run).code == 0
    found = command("finetune", path, "--steps", "1")
    assert found.code == 0, found.err
    assert (run / "model" / "config.json").exists()


def test_refusals_of_fine_tuning(tmp_path, refused):
    path = tmp_path / "recipe.toml"
    path.write_text("mine")
    words = ["init", "finetune", "classify", path]
    refused(f"{path} exists; name another file, or remove it first.", *words)
    refused(
        "task is 'clasify'; known: answer, classify, compare, embed, rerank, tag, text-to-text. "
        "Did you mean 'classify'?",
        "init", "finetune", "clasify", tmp_path / "other.toml",
    )  # fmt: skip
