"""`clozeworks finetune text-to-text`: a model that writes, from rows to answers, by one command."""

import json
import re

import pytest

import clozeworks as cw
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Turn

ANIMALS = ("cat", "dog", "fox", "hen")
SEARCH = ("task.writing.num_beams=2", "task.writing.length_penalty=0.5")
FAST = ("training.learning_rate=0.01", "training.batch_size=8")


@pytest.fixture
def rows(tmp_path):
    """The animal of a sentence is to be written."""
    path = tmp_path / "rows.jsonl"
    lines = [
        {"source": f"the {animal} is {word} on day {n}", "target": f"{animal} {word}"}
        for n in range(10)
        for animal in ANIMALS
        for word in ("good", "bad")
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_one_command_teaches_saves_and_says_what_to_type_next(
    name, writers, rows, command, tmp_path
):
    run = tmp_path / "run"
    typed = ["finetune", "text-to-text", writers[name], rows, "--out", run, *FAST]
    outcome = command(*typed, "training.epochs=12", "evaluation.per_epoch=1")
    assert outcome.code == 0, outcome.err
    assert "Texts of up to " in outcome.err
    assert ("Source and target stand in one row" in outcome.err) == (name == "gpt2")
    assert f"try it: clozeworks text-to-text {run}/model 'a text of yours'" in outcome.out
    assert outcome.out.startswith("chrf ")
    measured = json.loads((run / "metrics.json").read_text())
    assert measured["seeds"]["0"]["values"]["chrf"] > 0.6
    page = (run / "report.html").read_text()
    for word in ("source", "target", "predicted", "always writing the most frequent target"):
        assert word in page
    assert "could not be" not in outcome.err
    card = (run / "model" / "README.md").read_text()
    assert "model.text_to_text(" in card
    assert ("AutoModelForSeq2SeqLM" in card) == (name == "t5")
    lines = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    assert {"source", "source_location", "text"} <= lines[0].keys()
    assert lines[0]["gold"]
    generation = json.loads((run / "model" / "generation_config.json").read_text())
    assert generation["eos_token_id"] == (1 if name == "t5" else 0)
    assert ("decoder_start_token_id" in generation) == (name == "t5")

    asked = command("text-to-text", run / "model", "the fox is good on day 3", "--json")
    assert asked.code == 0, asked.err
    said = json.loads(asked.out)
    assert set(said) >= {"source", "text", "score", "ended"}
    model = cw.load(run / "model")
    assert model.text_to_text("the fox is good on day 3").text == said["text"]
    found = command("evaluate", run / "model", rows, "--json", "--metric", "exact_match")
    assert found.code == 0, found.err
    values = json.loads(found.out)
    assert values["primary"] == "exact_match"
    assert values["count"] == 80
    again = command(*typed, "training.epochs=12", "evaluation.per_epoch=1")
    assert again.code == 0
    assert again.out == outcome.out


def test_seeds_and_beams_and_a_recipe(writers, rows, command, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'run = "{tmp_path / "run"}"\nmodel = "{writers["t5"]}"\n'
        f'data = {{train = ["{rows}"]}}\nseeds = [0, 1]\n'
        'task = {kind = "text_to_text", prefix = "translate: ", metric = "bleu", '
        "writing = {max_new_tokens = 4, num_beams = 2, length_penalty = 0.6}}\ntraining = {epochs "
        "= 0.5}\n"
    )
    outcome = command("finetune", recipe)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("bleu over 2 seeds: mean")
    task = cw.load(tmp_path / "run" / "model").task
    assert (task.prefix, task.writing.num_beams, task.between) == ("translate: ", 2, None)


def test_a_run_that_was_stopped_ends_with_the_same_weights(writers, rows, tmp_path):
    from clozeworks.jobs.finetune.job import finetune

    def recipe(name):
        return {
            "run": str(tmp_path / name),
            "model": str(writers["t5"]),
            "task": {"kind": "text_to_text", "writing": {"max_new_tokens": 4}},
            "data": {"train": [str(rows)]},
            "training": {"epochs": 1.0, "batch_size": 8, "learning_rate": 0.01},
            "checkpointing": {"every_steps": 3},
        }

    finetune(recipe("whole"))
    with pytest.raises(KeyboardInterrupt):
        finetune(recipe("stopped"), callback=Stopping())
    finetune(recipe("stopped"))
    weights = [
        (tmp_path / name / "model" / "model.safetensors").read_bytes()
        for name in ("whole", "stopped")
    ]
    assert weights[0] == weights[1]


class Stopping:
    """Interrupts after some lines."""

    def __init__(self):
        self.lines = 0

    def note(self, text):
        pass

    def __getattr__(self, name):
        def told(*given, **named):
            self.lines += 1
            if self.lines > 8:
                raise KeyboardInterrupt

        return told


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_chats_are_learned_with_the_plain_template_which_is_saved(name, writers, command, tmp_path):
    path = tmp_path / "chats.jsonl"
    lines = [
        {
            "messages": [
                {"role": "user", "content": f"the {animal} is good"},
                {"role": "assistant", "content": "yes"},
                {"role": "user", "content": f"the {animal} is bad on day {n}"},
                {"role": "assistant", "content": f"no {animal}"},
            ]
        }
        for n in range(5)
        for animal in ANIMALS
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    run = tmp_path / "run"
    outcome = command(
        "finetune", "text-to-text", writers[name], path, "--out", run, "training.epochs=1", *FAST
    )
    assert outcome.code == 0, outcome.err
    assert "The tokenizer has no template for chats; a plain one is used and saved." in outcome.err
    assert "could not be" not in outcome.err
    model = cw.load(run / "model")
    assert model.tokenizer.has_chat_template
    (said,) = model.text_to_text([ChatItem((Turn("user", "the hen is bad"),))])
    most = model.task.writing.max_new_tokens
    assert model.generate("the hen is bad", chat=True, max_new_tokens=most).text == said.text
    assert command("evaluate", run / "model", path).code == 0


@pytest.mark.parametrize("name", ["t5", "gpt2"])
@pytest.mark.parametrize(
    ("change", "search"), [((), ()), (("search.learning_rates=[0.01,0.02]",), ()), ((), SEARCH)]
)
def test_a_model_that_learned_chats_is_asked_as_the_template_has_it(
    name, change, search, writers, command, tmp_path
):
    path, run = tmp_path / "chats.jsonl", tmp_path / "run"
    lines = [
        {
            "messages": [
                {"role": "user", "content": f"the cat is bad on day {n}"},
                {"role": "assistant", "content": "no cat"},
            ]
        }
        for n in range(40)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    typed = ("finetune", "text-to-text", writers[name], path, "--out", run, "training.epochs=1")
    outcome = command(
        *typed, "training.batch_size=8", *(change or ("training.learning_rate=0.01",)), *search
    )
    assert outcome.code == 0, outcome.err
    hint = f"try it: clozeworks generate {run}/model 'a text of yours' --chat\n"
    assert outcome.out.endswith(hint)
    card = (run / "model" / "README.md").read_text()
    most = cw.load(run / "model").task.writing.max_new_tokens
    assert f'model.generate("a text", chat=True, max_new_tokens={most}' in card
    assert "text_to_text(" not in card
    assert "messages, tokenize=False, add_generation_prompt=True" in card
    assert ("tokenizer(prompt, add_special_tokens=False, " in card) == (name == "gpt2")
    ours, theirs = (
        code.replace("FOLDER", str(run / "model"))
        for code in re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    )
    exec(ours, {})
    compile(theirs, "card", "exec")
    assert ("num_beams=2, length_penalty=0.5" in theirs) == bool(search)
    assert ("num_beams=2, length_penalty=0.5)" in ours) == bool(search)


def test_targets_that_cannot_be_written_are_said(writers, command, tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [{"source": f"the cat {n}", "target": "ж" if n == 3 else "yes"} for n in range(20)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    typed = ("finetune", "text-to-text", writers["t5"], path, "training.epochs=1", *FAST)
    outcome = command(*typed, "--out", tmp_path / "t5")
    assert outcome.code == 0, outcome.err
    assert "Targets that hold what the tokenizer has no token for: 1 of 20 items" in outcome.err
    cut = command(
        *typed, "--out", tmp_path / "cut", "task.lengths.source=3", "task.lengths.cut=true"
    )
    assert cut.code == 0, cut.err
    assert "Too long, and cut at their end as asked: 20 of 20 items." in cut.err
    assert "2 of 2 items of the dev set were cut." in (tmp_path / "cut" / "report.html").read_text()


def test_items_that_do_not_fit_are_left_out_if_bad_rows_are(writers, command, tmp_path):
    path = tmp_path / "chats.jsonl"
    lines = [
        {
            "messages": [
                {"role": "user", "content": "the cat is good " * (30 if n == 3 else 1) + str(n)},
                {"role": "assistant", "content": "yes"},
            ]
        }
        for n in range(20)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    typed = ("finetune", "text-to-text", writers["gpt2"], path, "training.epochs=1", *FAST)
    refused = command(*typed, "--out", tmp_path / "run")
    assert refused.code == 2
    assert "chats.jsonl, line 4 has " in refused.err
    assert "leave out turns, or drop such rows with --skip-bad-rows." in refused.err
    outcome = command(*typed, "--out", tmp_path / "run", "--skip-bad-rows")
    assert outcome.code == 0, outcome.err
    assert "1 item does not fit and is left out; the first: " in outcome.err


@pytest.mark.parametrize("change", ["cut=true", "source=8", "target=8"])
def test_lengths_are_not_for_chats_in_one_tower(change, writers, command, tmp_path):
    turns = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "yes"}]
    chats, more = tmp_path / "chats.jsonl", tmp_path / "rows.jsonl"
    chats.write_text((json.dumps({"messages": turns}) + "\n") * 8)
    more.write_text((json.dumps({"source": "the dog", "target": "no"}) + "\n") * 8)
    typed = ("training.epochs=1", *FAST, f"task.lengths.{change}")
    model = ("finetune", "text-to-text", writers["gpt2"])
    name, value = change.split("=")
    refused = command(*model, chats, *typed, "--out", tmp_path / "run")
    assert refused.code == 2
    assert " ".join(refused.err.split()).endswith(
        f"task.lengths.{name} is {value}; every item is a chat, and one tower reads chats whole; "
        "it has no effect; leave it out, and drop chats that are too long with --skip-bad-rows."
    )
    mixed = command(*model, chats, more, *typed, "--out", tmp_path / "mixed")
    assert mixed.code == 0, mixed.err
    said = f"task.lengths.{name} is {value}; it is not for chats, which are read whole."
    assert said in " ".join(mixed.err.split())
    apart = ("finetune", "text-to-text", writers["t5"], chats)
    assert command(*apart, *typed[:-1], "task.lengths.target=8", "--out", tmp_path / "t5").code == 0


def test_labelled_files_are_written_in_a_published_format(writers, command, tmp_path):
    path = tmp_path / "cola.tsv"
    lines = [f"{n % 2}\tthe {ANIMALS[n % 4]} is good on day {n}" for n in range(40)]
    path.write_text("\n".join(["label\tsentence", *lines]) + "\n")
    run = tmp_path / "run"
    outcome = command(
        "finetune", "text-to-text", writers["t5"], path, "--out", run, "task.format=cola",
        "--columns", "text=sentence,label=label", "training.epochs=1", *FAST,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "They are written as 'cola' asks for." in outcome.err
    assert outcome.out.startswith("matthews ")
    assert "could not be" not in outcome.err
    found = command("evaluate", run / "model", path, "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["primary"] == "matthews"
    assert command("text-to-text", run / "model", "the hen is good").code == 0


def test_tasks_are_mixed_and_measured_one_by_one(writers, rows, command, tmp_path):
    path = tmp_path / "cola.tsv"
    lines = [f"{n % 2}\tthe {ANIMALS[n % 4]} is good on day {n}" for n in range(20)]
    path.write_text("\n".join(["label\tsentence", *lines]) + "\n")
    run = tmp_path / "run"
    outcome = command(
        "finetune", "text-to-text", writers["t5"], rows, path, "--out", run, "training.epochs=1",
        "data.mixture.limit=36", "data.mixture.temperature=2", "task.formats.cola=cola", *FAST,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "An epoch shows 54 examples: rows 32, cola 22." in outcome.err
    assert outcome.out.startswith("mean ")
    assert "\ncola matthews " in outcome.out
    assert "\nrows chrf " in outcome.out
    assert "could not be" not in outcome.err
    assert command("evaluate", run / "model", path).code == 0
    model = cw.load(run / "model")
    answers = model.evaluate([SourceItem("the hen is bad", "hen bad", "rows")])
    assert answers.primary == "chrf"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{bert}", "{rows}"], "the model cannot write: its tokens see later ones"),
        (["{t5}", "{rows}", "--probe"], "--probe is set; it is for classify, compare, tag; "),
        (["{t5}", "{rows}", "task.between=x"], "the model reads the source in a tower of its own"),
        (["{t5}", "{rows}", "head=fresh"], "head is 'fresh'; it has no effect on a model that gen"),
        (["{t5}", "{rows}", "data.mixture.limit=0"], "mixture.limit is 0; it must be at least 1."),
        (["{t5}", "{rows}", "data.mixture.limit=5"], "all items are of the task 'rows'; there"),
        (["{t5}", "{rows}", "task.formats.x=cola"], "task.formats is 'x'; known: rows"),
        (["{t5}", "{rows}", "task.lengths.source=4"], "the source has "),
        (
            ["{t5}", "{rows}", "task.lengths.source=2", "--skip-bad-rows"],
            "no item is left; the first: ",
        ),
        (["{t5}", "{rows}", "augment.kind=delete"], "a changed source may want another t"),
        (["{t5}", "{rows}", "adversarial.weight=1.0"], "must choose one of several"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(
    arguments, sentence, writers, tiny_models, rows, command, tmp_path
):
    known = {"bert": tiny_models["bert"], "rows": rows, **writers}
    words = [word.format(**known) for word in arguments]
    outcome = command("finetune", "text-to-text", *words, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert sentence in outcome.err.replace("\n", " ")


def test_mixing_is_for_tasks_that_write(tiny_models, rows, command):
    outcome = command("finetune", "classify", tiny_models["bert"], rows, "data.mixture.limit=5")
    assert "data.mixture is set; task.kind is 'classify': only text_to_text" in outcome.err


def test_sources_with_gaps_and_targets_that_name_none_are_counted(writers, command, tmp_path):
    path = tmp_path / "gaps.jsonl"
    rows = [
        {"source": f"the <extra_id_0> is good on day {n}", "target": target}
        for n in range(10)
        for target in ("<extra_id_0> cat", "cat")
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    typed = ["finetune", "text-to-text", writers["t5"], path, "--out", tmp_path / "run"]
    outcome = command(*typed, *FAST, "training.epochs=1")
    assert outcome.code == 0, outcome.err
    said = "with targets that name none: 10 of 20 items; fill reads what stands after these names"
    assert said in " ".join(outcome.err.split())
    notes = json.loads((tmp_path / "run" / "model" / "clozeworks.json").read_text())
    assert notes["sentinels"] == "named", "so that fill asks a model of bytes with the same"


def test_adafactor_teaches_with_a_rate_that_stays(writers, rows, command, tmp_path):
    run = tmp_path / "run"
    typed = ["finetune", "text-to-text", writers["t5"], rows, "--out", run, "training.batch_size=8"]
    update = ["training.optimizer.kind=adafactor", "training.schedule.kind=constant"]
    outcome = command(*typed, *update, "training.learning_rate=0.05", "training.epochs=12")
    assert outcome.code == 0, outcome.err
    assert "the learning rate rises to 0.05 and stays there." in " ".join(outcome.err.split())
    lines = [json.loads(line) for line in (run / "seed-0" / "metrics.jsonl").open()]
    assert [line for line in lines if "learning_rate" in line][-1]["learning_rate"] == 0.05
    assert json.loads((run / "metrics.json").read_text())["seeds"]["0"]["values"]["chrf"] > 0.6
    refused = command(*typed, *update, "training.optimizer.weight_decay=0.1")
    assert refused.code == 2
    assert "A setting of training.optimizer is 'weight_decay'" in " ".join(refused.err.split())


def test_adafactor_has_a_rate_of_its_own():
    from clozeworks.jobs.finetune.plan import FinetunePlan
    from clozeworks.jobs.finetune.recipe import read_finetune_recipe

    plain = {"run": "r", "model": "m", "task": {"kind": "text_to_text"}, "data": {"train": ["x"]}}
    update = {"optimizer": {"kind": "adafactor"}}
    recipe = read_finetune_recipe({**plain, "training": update})
    plan = FinetunePlan.of(recipe, 100, 1_000_000, encoder_decoder=True)
    assert plan.training.learning_rate == 1e-3
    assert type(plan.training.optimizer).__name__ == "Adafactor"
    other = FinetunePlan.of(read_finetune_recipe(plain), 100, 1_000_000)
    assert type(other.training.optimizer).__name__ == "AdamW"


@pytest.mark.parametrize("task", ["classify", "compare", "tag", "answer", "text-to-text"])
def test_the_help_names_columns_that_the_task_knows(task, command):
    from clozeworks.data.labelled.columns import parse_columns
    from clozeworks.tasks.task import task_class

    shown = " ".join(command("finetune", task, "--help").out.replace("│", " ").split())
    example = re.search(r"Which column is what, for example (\S+); detected", shown)
    assert example is not None and parse_columns(example[1], task_class(task).item_type)
