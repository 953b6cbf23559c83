"""Every kind of rows teaches a model; what is saved is a sentence model that says so."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import clozeworks as cw
from clozeworks.core.heads.sentence_vectors import TruncateDim
from clozeworks.errors import ClozeworksError
from clozeworks.text.training.train import STYLES, train_from_iterator

THINGS = ["cat", "dog", "river", "garden", "old house", "red car", "tall tree", "small boat"]
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
TEXTS = [f"the {thing} is here {n}" for n, thing in enumerate(THINGS * 3)]
ROWS = {
    "pairs": [{"query": t, "document": f"look at {t}"} for t in TEXTS],
    "tuples": [
        {"anchor": t, "positive": f"look at {t}", "negative": f"no {THINGS[(n + 3) % 8]} at {n}"}
        for n, t in enumerate(TEXTS)
    ],
    "scores": [
        {"sentence1": t, "sentence2": f"a {THINGS[n % 5]} then", "score": n % 5 + 0.5}
        for n, t in enumerate(TEXTS)
    ],
    "judged": [
        {"question1": t, "question2": f"a {THINGS[n % 5]} then", "is_duplicate": n % 2}
        for n, t in enumerate(TEXTS)
    ],
    "classes": [
        {"premise": t, "hypothesis": f"a {THINGS[n % 5]}", "label": ("yes", "no", "maybe")[n % 3]}
        for n, t in enumerate(TEXTS)
    ],
    "groups": [{"text": t, "label": THINGS[n % 8]} for n, t in enumerate(TEXTS)],
    "texts": [{"text": t} for t in TEXTS],
    "vectors": [{"text": t, "teacher": [float(n % 3), 1.0, -1.0]} for n, t in enumerate(TEXTS)],
    "lists": [
        {"query": t, "positive": f"look {t}", "negative": [f"no {n}", f"or {n}"], "teacher": s}
        for n, (t, s) in enumerate(zip(TEXTS, [[3.0, 1.0, 0.5], [2.0, 0.0, 1.0]] * 12, strict=True))
    ],
}
# Other kinds are learned from numbers, and nothing is right or wrong.
RIGHT_ANSWERS = {"pairs", "tuples", "classes", "groups", "texts"}
DEV = [{"sentence1": t, "sentence2": TEXTS[(n + 1) % 8], "score": n % 4} for n, t in
       enumerate(TEXTS[:8])]  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    tokenizer = train_from_iterator(TEXTS, kind="wordpiece", size=150)
    folder = tmp_path_factory.mktemp("embed") / "model"
    return cw.new("bert-tiny", tokenizer, **SMALL).save(folder)


def taught(start, rows, out, **task):
    return cw.finetune(
        start,
        rows,
        dev=DEV,
        task={"kind": "embed", "windows": {"keep": "first", "length": 32}, **task},
        out=out,
        quiet=True,
        epochs=2,
        batch_size=6,
    )


@pytest.mark.parametrize("kind", ROWS)
def test_what_rows_teach(start, tmp_path, kind):
    trained = taught(start, ROWS[kind], tmp_path / "run")
    assert trained.model is not None
    model = cw.load(trained.model)
    assert (model.pooling.modes, model.pooling.normalize) == (("mean",), True)
    before, after = (each.embed(TEXTS[:4]) for each in (cw.load(start), model))
    assert np.allclose(np.linalg.norm(after, axis=1), 1, atol=1e-6)
    assert not np.allclose(before / np.linalg.norm(before, axis=1, keepdims=True), after, atol=1e-4)
    assert "embedding_loss" not in model.model.heads
    assert json.loads((trained.model / "clozeworks.json").read_text())["task"]["kind"] == "embed"
    (lines,) = (tmp_path / "run").rglob("metrics.jsonl")
    losses = [line["embed"] for line in map(json.loads, lines.read_text().splitlines())
              if "embed" in line]  # fmt: skip
    assert losses and all(("accuracy" in each) == (kind in RIGHT_ANSWERS) for each in losses)


def test_pairs_are_learned(start, tmp_path):
    """A model that is taught finds the partner of a text; one that is not does not."""
    rows = [
        {"anchor": thing, "positive": f"the {THINGS[(n + 3) % 8]} is here"}
        for n, thing in enumerate(THINGS)
    ]
    found = []
    for epochs in (1, 60):
        trained = cw.finetune(
            start, rows, dev=rows, task="embed", out=tmp_path / str(epochs), quiet=True,
            epochs=epochs, batch_size=8, lr=2e-3,
        )  # fmt: skip
        found.append(trained.metrics["accuracy"])
    assert found[1] > found[0] + 0.3


@pytest.mark.parametrize(
    ("task", "width"),
    [
        ({"steps": [{"kind": "dense", "width": 12, "activation": "tanh"}]}, 12),
        ({"pooling": ["attention_mean"]}, 32),
        ({"pooling": ["first", "max"]}, 64),
    ],
)
def test_layers_after_pooling_and_poolings_are_learned_and_saved(start, tmp_path, task, width):
    trained = taught(start, ROWS["tuples"], tmp_path / "run", **task)
    model = cw.load(trained.model)
    vectors = model.embed(TEXTS[:3])
    assert vectors.shape == (3, width)
    again = cw.finetune(
        trained.model, ROWS["pairs"], dev=DEV, task="embed", out=tmp_path / "again", quiet=True,
        steps=1, batch_size=6,
    )  # fmt: skip
    assert cw.load(again.model).pooling == model.pooling  # a second run goes on with the same chain
    assert cw.load(again.model).embed(TEXTS[:3]).shape == (3, width)


def test_a_guide_embeds_all_texts_once(start, tmp_path):
    loss = {"kind": "guided_ranking", "guide": str(start), "temperature": 0.05}
    trained = taught(start, ROWS["tuples"], tmp_path / "run", loss=loss)
    notes = [path.read_text() for path in (tmp_path / "run").rglob("notes.jsonl")]
    assert any("embeds 72 texts first" in note for note in notes)
    assert cw.load(trained.model).embed("a cat").shape == (32,)


def test_prompts_are_saved_and_used(start, tmp_path):
    prompts = {"query_prompt": "query: ", "document_prompt": "passage: "}
    trained = taught(start, ROWS["pairs"], tmp_path / "run", **prompts)
    model = cw.load(trained.model)
    assert model.prompts.texts["query"] == "query: "
    named, typed = model.embed("a cat", prompt="query"), model.embed("query: a cat", prompt="")
    assert np.allclose(named, typed, atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "task", "words"),
    [
        (ROWS["pairs"], {"loss": {"kind": "cosent"}}, "the rows hold pairs of texts that"),
        (ROWS["pairs"][:1] * 4, {}, "no two rows of the training data can be compared"),
        ([{"text": t, "label": "one"} for t in TEXTS], {}, "there must be two classes"),
        (
            ROWS["scores"],
            {"loss": {"kind": "cosine_similarity", "lowest": 0.0, "highest": 1.0}},
            "scores are from 0 to 1, and a row has",
        ),
        (
            ROWS["pairs"],
            {
                "loss": {
                    "kind": "matryoshka",
                    "loss": {"kind": "multiple_negatives_ranking"},
                    "widths": [64],
                }
            },
            "vectors of this model have 32 dimensions",
        ),
        (ROWS["pairs"], {"windows": {"keep": "all"}}, "a text has one vector"),
    ],
)
def test_what_cannot_be_taught(start, tmp_path, rows, task, words):
    with pytest.raises(ClozeworksError, match=words):
        taught(start, rows, tmp_path / "run", **task)


class Listen(cw.Callback):
    """Takes down what is said."""

    def __init__(self, sentences):
        self.sentences = sentences

    def on_message(self, sentence):
        self.sentences.append(sentence.removeprefix("Seed 0: "))


class StopAt(cw.Callback):
    """Ends a session after a step."""

    def __init__(self, step):
        self.last = step

    def on_step(self, step, result):
        return step == self.last


@pytest.mark.parametrize("loss", ["multiple_negatives_ranking", "triplet"])
def test_who_stops_goes_on_to_the_same_bytes(start, tmp_path, loss):
    """Steps without equal texts are a function of seed and epoch, like everything else."""

    def run(name, *callbacks):
        return cw.finetune(
            start, [*ROWS["tuples"], *ROWS["tuples"][:5]], dev=DEV, out=tmp_path / name, quiet=True,
            task={"kind": "embed", "loss": {"kind": loss}}, epochs=3, batch_size=4,
            callbacks=callbacks,
        )  # fmt: skip

    whole = run("whole")
    assert run("parts", StopAt(3)).model is None
    assert run("parts", StopAt(8)).model is None
    parts = run("parts")
    first, second = (
        (trained.model / "model.safetensors").read_bytes() for trained in (whole, parts)
    )
    assert first == second


@pytest.mark.parametrize(
    "pooling",
    [
        cw.Pooling(modes=("first",)),
        cw.Pooling(modes=("first", "max"), normalize=True, max_length=10),
        cw.Pooling(modes=("attention_mean",), max_length=4000),
        cw.Pooling(steps=(TruncateDim(width=7),)),
    ],
    ids=str,
)
def test_vectors_of_a_model_that_was_not_taught_are_made_as_its_folder_says(start, pooling):
    model = cw.load(start)
    model.pooling = pooling
    texts = [TEXTS[0], " ".join(TEXTS[1:5])]
    found = np.concatenate([each.vectors for each in model.predict(texts, "embed")])
    assert np.allclose(found, model.embed(texts, truncate=True), atol=1e-6)


def weights_of_tokens(model):
    return model.model.sentence.pooling.weights


def test_token_weights_are_counted_in_the_texts_to_learn_from(start, tmp_path):
    trained = taught(start, ROWS["pairs"], tmp_path / "run", pooling=["tf_idf_mean"]).load()
    expected = cw.load(start)
    expected.weigh_tokens([text for row in ROWS["pairs"] for text in row.values()])
    assert trained.pooling.modes == ("tf_idf_mean",)
    assert torch.equal(weights_of_tokens(trained), weights_of_tokens(expected))
    assert weights_of_tokens(trained).unique().numel() > 3
    assert not np.allclose(trained.embed(TEXTS), expected.embed(TEXTS, normalize=True))


def test_token_weights_that_a_model_has_stay(start, tmp_path):
    model = cw.load(start)
    model.weigh_tokens([TEXTS[0]] * 3 + [THINGS[0]])
    own = weights_of_tokens(model).clone()
    assert np.allclose(model.predict(TEXTS[:1], "embed")[0].vectors, model.embed(TEXTS[:1]))
    trained = taught(model.save(tmp_path / "weighed"), ROWS["scores"], tmp_path / "run").load()
    assert trained.pooling.modes == ("tf_idf_mean",)
    assert torch.equal(weights_of_tokens(trained), own)


def test_a_model_for_small_letters_learns_from_small_letters(start, tmp_path):
    """What is embedded in small letters is learned from in small letters."""
    style = replace(STYLES["wordpiece"](), lowercase=False)
    cased = train_from_iterator(TEXTS, kind="wordpiece", size=150, style=style)
    model = cw.new("bert-tiny", cased, **SMALL)
    model.pooling = cw.Pooling(lowercase=True)
    small = [{"query": t, "document": f"look at {t}"} for t in TEXTS]
    large = [{name: text.upper() for name, text in row.items()} for row in small]
    folder = model.save(tmp_path / "model")
    first, second = (
        taught(folder, rows, tmp_path / name).load().embed(["The CAT"])
        for name, rows in (("small", small), ("large", large))
    )
    assert np.array_equal(first, second)


def test_settings_of_the_usual_loss_need_no_kind(start, tmp_path):
    result = taught(start, ROWS["pairs"], tmp_path / "run", loss={"scale": 30.0})
    assert result.load().embed(["the cat"]).shape == (1, 32)
    with pytest.raises(ClozeworksError, match=r"task\.loss is 'scael'.*Did you mean 'scale'"):
        taught(start, ROWS["pairs"], tmp_path / "wrong", loss={"scael": 30.0})
    with pytest.raises(ClozeworksError, match=r"task\.loss is 5; it must be a table with a kind"):
        taught(start, ROWS["pairs"], tmp_path / "wrong", loss=5)


@pytest.mark.parametrize(
    ("kind", "task", "primary", "said"),
    [
        ("texts", {}, "mrr@10", "the first half of each text finds its second half"),
        ("texts", {"loss": {"kind": "tsdae"}}, "mrr@10", "finds its second half"),
        ("classes", {}, "mrr@10", "The dev set holds pairs of texts with a class: measured is"),
        ("vectors", {}, "spearman", "pairs of texts are as similar as the teacher finds them"),
        ("lists", {}, "accuracy", "the first document is nearer than the others"),
        ("groups", {}, "neighbour_accuracy", "Each text is paired with another of its class"),
    ],
)
def test_rows_of_every_kind_can_be_measured_on(start, tmp_path, kind, task, primary, said):
    """Whoever names no dev file learns how good the model is, whatever the rows hold."""
    sentences = []
    result = cw.finetune(
        start, ROWS[kind], task={"kind": "embed", **task}, out=tmp_path / "run", steps=2,
        batch_size=8, callbacks=[Listen(sentences)], quiet=True,
    )  # fmt: skip
    assert any(said in sentence for sentence in sentences), sentences
    assert next(iter(result.metrics)) == primary
    (before,) = [each for each in sentences if each.startswith("Before training ")]
    assert before.startswith(f"Before training {primary} was ")


def test_a_run_that_spoils_a_model_says_so(start, tmp_path):
    sentences = []
    wrong = [{**row, "score": -row["score"]} for row in ROWS["scores"]]
    right = cw.finetune(start, ROWS["scores"], dev=ROWS["scores"], task="embed", epochs=8, lr=3e-3,
                        batch_size=8, out=tmp_path / "right", quiet=True)  # fmt: skip
    cw.finetune(
        right.load(), wrong, dev=ROWS["scores"], task="embed", epochs=4, lr=3e-3, batch_size=8,
        out=tmp_path / "wrong", callbacks=[Listen(sentences)], quiet=True,
    )  # fmt: skip
    assert any(each.startswith("The model is no better than before training") for each in sentences)
    page = (tmp_path / "wrong" / "report.html").read_text()
    assert "Keep the one you had" in page.replace("\n", " ") and ">before<" in page
    assert "Every prediction on the dev set is right" not in page
    assert "of all rows away from its place" in page


def test_each_width_is_measured(start, tmp_path):
    loss = {"kind": "matryoshka", "loss": {"kind": "cosent"}, "widths": [4, 8]}
    result = taught(start, ROWS["scores"], tmp_path / "run", loss=loss)
    names = [name for name in result.metrics if name.endswith("_dimensions")]
    assert names == ["spearman_of_8_dimensions", "spearman_of_4_dimensions"]
    small = result.load().embed([text for row in DEV for text in list(row.values())[:2]])[:, :4]
    unit = small / np.linalg.norm(small, axis=1, keepdims=True)
    cosines = (unit[0::2] * unit[1::2]).sum(1)
    right = spearmanr([row["score"] for row in DEV], cosines).statistic
    assert result.metrics["spearman_of_4_dimensions"] == pytest.approx(right, abs=1e-6)


def test_columns_of_the_dev_file_may_be_others(start, tmp_path):
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("".join(f"{r['query']}\t{r['document']}\n" for r in ROWS["pairs"]))
    rows = [f"x\t{r['sentence1']}\t{r['sentence2']}\t{r['score']}\n" for r in DEV]
    dev.write_text("genre\tsentence1\tsentence2\tscore\n" + "".join(rows))
    recipe = {
        "run": str(tmp_path / "run"),
        "model": str(start),
        "task": {"kind": "embed"},
        "data": {
            "train": [str(train)],
            "dev": [str(dev)],
            "columns": {"anchor": "1", "positive": "2"},
            "dev_columns": {},
        },
        "training": {"batch_size": 8, "epochs": 1.0},
    }
    sentences = []
    result = cw.finetune(recipe, callbacks=[Listen(sentences)], quiet=True)
    assert next(iter(result.metrics)) == "spearman"
    (said,) = [each for each in sentences if each.startswith("To judge by: ")]
    assert "anchor=sentence1 (by its name), positive=sentence2 (by its name), label=score" in said


def test_rows_that_are_left_out_are_told_from_equal_texts(start, tmp_path):
    def said(rows, size):
        sentences = []
        out, said = tmp_path / f"run-{size}-{len(rows)}", [Listen(sentences)]
        cw.finetune(start, rows, dev=DEV, task="embed", steps=1, batch_size=size, out=out,
                    callbacks=said, quiet=True)  # fmt: skip
        return sentences

    rest = said(ROWS["pairs"], 10)
    assert any("The last 4 rows of an epoch would make a step smaller than 10" in e for e in rest)
    assert not any("has a text twice" in each for each in rest)
    few = said(ROWS["pairs"], 1000)
    assert "A step has 24 rows and not 1,000: no more of them share no text." in few
    equal = said([*ROWS["pairs"], *[ROWS["pairs"][0]] * 5], 24)
    assert any(
        "in the first epoch 0 rows moved to a later step, and 4 rows are" in e for e in equal
    )
    assert any("last 1 row of an epoch" in each for each in equal)


def test_a_text_is_not_compared_with_its_copy(start, tmp_path):
    """Without dropout both vectors of a text are the same, and there is nothing to learn."""
    model = cw.load(start)
    config = {**SMALL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    still = cw.new("bert-tiny", model.tokenizer, **config).save(tmp_path / "still")
    sentences = []

    def run(begin, name, **task):
        sentences.clear()
        task = {"kind": "embed", "windows": {"keep": "first", "length": 32}, **task}
        said = [Listen(sentences)]
        result = cw.finetune(begin, ROWS["texts"], dev=DEV, task=task, batch_size=8, epochs=1,
                             out=tmp_path / name, callbacks=said, quiet=True)  # fmt: skip
        weights = (result.model / "model.safetensors").read_bytes()
        return weights, any("The model drops nothing" in each for each in sentences)

    usual, said = run(still, "usual")
    assert said
    assert run(still, "stated", dropout=0.1) == (usual, False)
    assert run(still, "more", dropout=0.3)[0] != usual
    assert not run(start, "bert")[1]
    trained = cw.load(tmp_path / "usual" / "model")
    assert not trained.model.drops and trained.task.dropout is None
    with pytest.raises(ClozeworksError, match="nothing would tell the two apart"):
        run(start, "none", dropout=0.0)
