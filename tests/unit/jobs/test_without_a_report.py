"""A run may do without its report; nothing else is missing then."""

from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.pretrain.job import pretrain


def test_no_report_where_none_is_wanted(tiny_recipe, tmp_path):
    tiny_recipe["logging"]["report"] = False
    pretrained = pretrain(tiny_recipe)
    rows = [f"ba be {'bo' if number % 2 else 'bu'},{number % 2}" for number in range(24)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    recipe = {
        "run": str(tmp_path / "tuned"),
        "model": str(pretrained.model),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "rows.csv")], "dev_fraction": 0.25},
        "training": {"steps": 1, "batch_size": 8},
        "logging": {"report": False},
    }
    tuned = finetune(recipe)
    for done in (pretrained, tuned):
        assert done.report is None
        assert not (done.folder / "report.html").exists()
        assert not (done.folder / "curves.png").exists()
        assert (done.model / "README.md").exists()
    assert (tuned.folder / "predictions.jsonl").exists()
