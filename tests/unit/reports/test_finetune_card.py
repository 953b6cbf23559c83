"""The card of a fine-tuned model: what a hub reads, and what people do."""

import json
import re
from pathlib import Path

import pytest
import torch

import clozeworks as cw
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.recipe import read_finetune_recipe
from clozeworks.jobs.finetune.report import write_report

FILES = {
    "classify": ("reviews.csv", "text,label\n", "the cat is {word} {n},{label}\n"),
    "several": ("topics.csv", "text,labels\n", "the cat is {word} {n},{label}|x\n"),
    "compare": ("pairs.csv", "first,second,score\n", "cat {n},a dog {word},{n}.5\n"),
    "tag": ("words.conll", "", "the O\ncat B-PER\nis O\n{word} B-LOC\n\n"),
    "answer": (
        "asked.jsonl",
        "",
        '{{"question": "what", "context": "{n} the cat is {word}", '
        '"answers": [{{"text": "cat", "answer_start": {at}}}]}}\n',
    ),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    from clozeworks.text.training.train import train_from_iterator

    texts = ["the cat is good what", "a dog is bad x"] * 9
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=80)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    folder = tmp_path_factory.mktemp("start") / "tiny"
    cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **sizes).save(folder)
    return folder


@pytest.fixture
def card(start, tmp_path):
    """Trains one step, and gives the card, its metadata and the run."""

    def made(kind, *changes):
        name, head, line = FILES[kind]
        rows = [
            line.format(n=n, at=len(str(n)) + 5, word=word, label=label)
            for n in range(12)
            for word, label in (("good", "yes"), ("bad", "no"))
        ]
        (tmp_path / name).write_text(head + "".join(rows), encoding="utf-8")
        recipe = {
            "run": str(tmp_path / "run"),
            "model": str(start),
            "task": {"kind": "classify" if kind == "several" else kind},
            "data": {"train": [str(tmp_path / name)], "dev_fraction": 0.25},
            "training": {"epochs": 0.2},
        }
        if kind == "several":
            recipe["data"] |= {"labels": "several", "label_separator": "|"}
        done = finetune(recipe, *changes)
        text = (done.model / "README.md").read_text(encoding="utf-8")
        front = text.split("---\n")[1]
        metadata = dict(line.split(": ", 1) for line in front.splitlines())
        return text, {key: json.loads(value) for key, value in metadata.items()}, (recipe, done)

    return made


@pytest.mark.parametrize(
    ("kind", "pipeline", "call"),
    [
        ("classify", "text-classification", 'model.classify(["a text"])'),
        ("compare", "text-classification", 'pipe({"text": "one text", "text_pair": "another"})'),
        ("tag", "token-classification", 'aggregation_strategy="first"'),
        ("answer", "question-answering", "AutoModelForQuestionAnswering.from_pretrained"),
    ],
)
def test_what_a_hub_reads(card, kind, pipeline, call):
    text, metadata, (_, done) = card(kind)
    assert metadata["pipeline_tag"] == pipeline
    assert metadata["tags"] == ["clozeworks", "bert", kind]
    assert metadata["library_name"] == "transformers"
    assert not {"license", "language", "base_model"} & metadata.keys()
    (result,) = metadata["model-index"][0]["results"]
    assert result["task"] == {"type": pipeline, "name": kind}
    file = FILES[kind][0]
    assert result["dataset"] == {
        "type": Path(file).stem,
        "name": f"{file}, a part that was not used for training",
    }
    first = result["metrics"][0]
    measured = done.best.measured
    assert first["name"] == measured.primary
    assert first["value"] == pytest.approx(measured.value, abs=1e-6)
    assert call in text


def test_the_hub_library_reads_it_so(card):
    from huggingface_hub import ModelCard

    text, _, (_, done) = card("compare")
    data = ModelCard(text).data
    found = {each.metric_name: (each.metric_type, each.metric_value) for each in data.eval_results}
    value = done.best.measured.values["mean_squared_error"]
    assert found["mean_squared_error"] == ("mse", pytest.approx(value, abs=1e-5))
    assert found["spearman"][0] == "spearmanr"
    assert data.eval_results[0].task_type == "text-classification"


def test_results_data_and_training_stand_in_it(card, tmp_path):
    text, _, (_, done) = card("classify")
    measured = done.best.measured
    low, high = measured.intervals["accuracy"]
    row = f"| accuracy | {measured.value:.3f} | {low:.3f} to {high:.3f} | 0.500 |"
    assert row in text and "Guessing is always predicting 'no', the most" in text
    assert "| train | 18 |" in text and "| dev | 6 |" in text
    assert "Labels: `no` 50.0%, `yes` 50.0%." in text
    assert "| `data.train` | `['reviews.csv']` |" in text
    assert "| `model` | `tiny` |" in text and "`run`" not in text
    assert str(tmp_path) not in text  # a card is read elsewhere
    assert re.search(r"Clozeworks \S+, torch \S+, Python \d", text)


def test_what_transformers_cannot_do_is_said(card):
    text, metadata, _ = card("classify", "task.pooling=mean")
    assert metadata["library_name"] == "clozeworks"
    assert (
        "The pooling is 'mean', which differs from the family's own: transformers loads only the "
        "encoder." in text
    )
    assert "pipeline(" not in text


def test_learned_transitions_are_said(card):
    text, metadata, _ = card("tag", "task.crf=true")
    assert metadata["library_name"] == "clozeworks"
    assert "it chooses tags word by word, and its predictions differ." in text


@pytest.mark.parametrize(
    ("kind", "option"), [("several", "top_k=None"), ("compare", 'function_to_apply="none"')]
)
def test_options_of_a_pipeline(card, kind, option):
    text, _, _ = card(kind)
    assert f'pipeline("text-classification", "FOLDER", {option})' in text


def test_a_hub_name_is_the_base_model(card, listener):
    _, _, (recipe, done) = card("classify")
    settled = read_finetune_recipe({**recipe, "model": "somebody/some-model"})
    write_report(
        done.folder, settled, done.data, done.results, done.best,
        device=torch.device("cpu"), callback=listener,
    )  # fmt: skip
    text = (done.model / "README.md").read_text(encoding="utf-8")
    assert 'base_model: "somebody/some-model"\n' in text
    assert "| `model` | `somebody/some-model` |" in text


def test_the_model_still_loads_with_its_card(card):
    _, _, (_, done) = card("classify")
    assert cw.load(done.model).classify("the cat is good").label in ("yes", "no")


def snippets(text, folder):
    """The code of a card, with the folder put in."""
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [code.replace("FOLDER", str(folder)) for code in found]


@pytest.mark.parametrize("kind", [*FILES])
def test_its_first_code_runs(card, kind):
    text, _, (_, done) = card(kind)
    exec(snippets(text, done.model)[0], {})


@pytest.mark.parity
@pytest.mark.parametrize("kind", [*FILES])
def test_its_code_for_transformers_runs(card, kind):
    text, _, (_, done) = card(kind)
    exec(snippets(text, done.model)[1], {})
