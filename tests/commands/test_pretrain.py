"""`clozeworks pretrain` from a corpus to a model folder: what is there, what is said and kept."""

import contextlib
import io
import json
import shutil

import pytest
import torch

import clozeworks as cw
from clozeworks.cli import main
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.text.tokenizer.tokenizer import Tokenizer

SHORT = ["training.steps=2", "training.schedule={kind='constant', warmup_steps=0}"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@pytest.fixture(scope="module")
def whole(write_recipe, tmp_path_factory):
    """A run from beginning to end, with what it said."""
    folder = tmp_path_factory.mktemp("whole")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        assert main.run(["pretrain", str(write_recipe(folder))]) == 0
    return folder / "run", said.getvalue()


@pytest.fixture
def finished(whole, run):
    """A copy of a run that is finished; what it said."""
    shutil.copytree(whole[0], run)
    return whole[1].replace(str(whole[0]), str(run))


def records(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_from_a_corpus_to_a_model(finished, run, small_corpus, hashes):
    found = records(run)
    assert [record["step"] for record in found if "evaluation" in record] == [0, 4, 8, 12]
    assert [record["step"] for record in found if "learning_rate" in record] == [5, 10, 12]
    assert "Step 9: from here on texts of up to 40 tokens.\n" in finished
    assert "masked_lm: " in finished and "Guessing by frequency costs " in finished
    assert f"The model is in {run / 'model'}; try it: clozeworks fill " in finished
    assert sorted(path.name for path in (run / "snapshots").iterdir()) == [
        "latest",
        "step-000000010",
        "step-000000012",
    ]
    assert (run / "snapshots" / "latest").read_text() == "step-000000012\n"
    model = cw.load(run / "model")
    assert {"vocabulary", "next_sentence"} == set(model.blueprint.heads)
    corpus = Corpus.open(small_corpus)
    assert Tokenizer.load(run / "model").fingerprint == corpus.tokenizer.fingerprint
    assert model.fill("The [MASK] sat.", top=3)


def test_the_card_has_metadata_and_numbers(finished, run):
    card = (run / "model" / "README.md").read_text()
    assert card.startswith('---\nlibrary_name: "transformers"\npipeline_tag: "fill-mask"\n')
    assert 'mask_token: "[MASK]"\n---\n' in card
    last = [record["evaluation"] for record in records(run) if "evaluation" in record][-1]
    for part in ("masked_lm", "next_sentence"):
        assert f"| {part} | {last[part]['loss']:.4f} | {last[part]['accuracy']:.2%} |" in card
    assert "| guessing by frequency |" in card and "| `training.steps` | `12` |" in card
    assert "12 steps, " in card


def test_a_finished_run_is_left_alone(finished, command, recipe, run, hashes):
    before = hashes(run)
    again = command("pretrain", recipe)
    assert again.code == 0
    assert again.err.startswith("All 12 steps are done; nothing is left to train.\n")
    assert finished.endswith(again.out.split("\n", 1)[1]) and again.out.startswith("12 steps, ")
    after = hashes(run)
    kept = [name for name in before if name.startswith(("model/", "snapshots/", "metrics"))]
    assert len(kept) > 10 and {name: after[name] for name in kept} == {n: before[n] for n in kept}


def test_a_model_that_is_gone_is_made_again_from_the_last_snapshot(
    finished, command, recipe, run, hashes
):
    before = hashes(run / "model")
    shutil.rmtree(run / "model")
    assert command("pretrain", recipe).code == 0
    assert hashes(run / "model") == before


def test_a_model_without_snapshots_is_not_trained_over(finished, recipe, run, refused):
    """Whoever removed the snapshots of a finished run to save room keeps the model."""
    shutil.rmtree(run / "snapshots")
    refused(
        f"{run / 'model'} is there, but no snapshot to go on from; the run would begin again at "
        "the first step; name another folder for the run, or remove this one.",
        "pretrain",
        recipe,
    )


def test_damaged_snapshots(finished, command, recipe, run, refused, hashes):
    whole = hashes(run / "model")
    newest = run / "snapshots" / "step-000000012" / "model.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    again = command("pretrain", recipe)
    assert again.code == 0
    assert again.err.startswith(
        f"{newest} is damaged: its content is not what its manifest says. The one before it is "
        "used.\nGoing on from step 10 of 12.\n"
    )
    after = hashes(run / "model")
    assert after["model.safetensors"] == whole["model.safetensors"]
    assert len((run / "metrics.jsonl").read_text().splitlines()) == len(lines)
    for path in (run / "snapshots").glob("*/state.json"):
        path.unlink()
    folder = run / "snapshots"
    missing = [
        f"{folder}/step-0000000{step}/state.json cannot be read (No such file or directory). "
        for step in (12, 10)
    ]
    refused(
        f"{''.join(missing)}No snapshot in {folder} is whole, so the run cannot go on; restore "
        "one, or remove that folder to begin again at the first step.",
        "pretrain",
        recipe,
    )


def test_a_changed_recipe_is_refused_but_watching_and_snapshots_may_change(
    finished, command, recipe, run, refused
):
    refused(
        f"run is '{run}'; it was started with another recipe: model.config.hidden_size was 32, now "
        "64; data.stages[1].length was 40, now 48; training.steps was 12, now 20; seed was 3, now "
        "4; a run continues with the recipe it was started with; change it back, or name another "
        "folder.",
        "pretrain",
        recipe,
        "training.steps=20",
        "seed=4",
        "model.config.hidden_size=64",
        "data.stages=[{length=24, fraction=0.75}, {length=48, fraction=0.25}]",
    )
    free = [
        "logging.every_steps=1",
        "evaluation.every_steps=2",
        "checkpointing.keep=5",
        "checkpointing.every_minutes=1",
    ]
    assert command("pretrain", recipe, *free).code == 0


def test_another_corpus_under_the_same_name_is_noticed(
    finished, command, recipe, run, small_corpus, tmp_path
):
    other = shutil.copytree(small_corpus, tmp_path / "other")
    moved = command("pretrain", recipe, f"data.corpus={other}")
    assert moved.code == 2 and "data.corpus was " in moved.err
    saved = json.loads((run / "recipe.json").read_text())
    saved["identity"]["corpus"] = "another"
    (run / "recipe.json").write_text(json.dumps(saved))
    changed = command("pretrain", recipe)
    assert changed.code == 2 and "identity.corpus was 'another', now '" in changed.err


def test_before_the_first_snapshot_a_recipe_may_still_change(command, recipe, run):
    """As after a run that was stopped by what is checked first."""
    outcome = command("pretrain", recipe, *SHORT)
    assert outcome.code == 0
    shutil.rmtree(run / "snapshots")
    shutil.rmtree(run / "model")
    again = command("pretrain", recipe, *SHORT, "training.steps=3", "evaluation.every_steps=0")
    assert again.code == 0
    assert [record["step"] for record in records(run)] == [0, 3, 3]


def test_the_same_recipe_gives_the_same_bytes_and_another_seed_others(
    command, recipe, tmp_path, hashes
):
    def weights(name, *changes):
        place = tmp_path / name
        assert command("pretrain", recipe, f"run={place}", *SHORT, *changes).code == 0
        return hashes(place / "model")["model.safetensors"]

    assert weights("a") == weights("b") != weights("c", "seed=4")


def test_a_corpus_without_held_out_text(command, recipe, small_corpus, tmp_path):
    from clozeworks.data.corpus.build import BuildSettings, build_corpus

    corpus = tmp_path / "corpus"
    build_corpus(
        [small_corpus.parent / "a.txt"],
        corpus,
        Corpus.open(small_corpus).tokenizer,
        BuildSettings(validation=0),
        workers=1,
    )
    outcome = command("pretrain", recipe, f"data.corpus={corpus}", *SHORT)
    assert outcome.code == 0 and "held-out" not in outcome.err
    assert all("evaluation" not in record for record in records(tmp_path / "run"))
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "The corpus has no held-out part, so nothing was measured." in card


def test_a_loss_that_is_never_finite_ends_with_a_sentence(command, recipe, run):
    outcome = command(
        "pretrain", recipe, "training.learning_rate=1e38", "training.max_grad_norm=none",
        "training.steps=60", "checkpointing.every_steps=1",
        "training.schedule={kind='constant', warmup_steps=0}", "evaluation.every_steps=0",
    )  # fmt: skip
    assert outcome.code == 2 and "Traceback" not in outcome.err
    assert "loss or gradient was not finite 10 times in a row" in outcome.err.splitlines()[-1]
    assert list((run / "snapshots").glob("step-*/manifest.json"))
    assert not (run / "model").exists()


@pytest.mark.parametrize(
    ("ranks", "before"),
    [(None, ""), ("1", ""), ("3", "torchrun --nproc-per-node 3 -m ")],
)
def test_how_to_go_on_with_as_many_processes(recipe, monkeypatch, capsys, ranks, before):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("clozeworks.jobs.pretrain.job.pretrain", stopped)
    if ranks is not None:
        monkeypatch.setenv("WORLD_SIZE", ranks)
    with pytest.raises(SystemExit) as caught:
        main.run(["pretrain", str(recipe), "seed=4", "--device", "cpu"])
    assert caught.value.code == 130
    assert capsys.readouterr().err.endswith(
        "Stopped; the newest snapshot counts. Go on with: "
        f"{before}clozeworks pretrain {recipe} seed=4 --device cpu\n"
    )
