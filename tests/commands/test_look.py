"""`clozeworks look`: tables, JSON, and a page that needs no network."""

import json
import re

import pytest

from clozeworks.display.table import width
from clozeworks.serve.inside.page_alone import page_alone

TEXT, GAP = "The cat sat on the mat.", "The cat sat on the [MASK]."


def looked(command, *arguments):
    outcome = command("look", *arguments)
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_tables(command, tiny_models, tmp_path):
    bert = tiny_models["bert"]
    heads = looked(command, "attention", bert, TEXT)
    assert re.search(r"layer +head +bits", heads) and "not what an answer is due to" in heads
    one = looked(command, "attention", bert, TEXT, "--head", 2)
    assert "layer 2, head 2" in one and "adds most of" in one
    lens = looked(command, "lens", bert, GAP, "--right", "cat", "--top", 2)
    assert "right: cat" in lens and "trained on the last layer alone" in lens
    words = looked(command, "attribute", bert, GAP, "--steps", 5, "--controls")
    assert "is missing after" in words and "random orders" in words
    (tmp_path / "texts.txt").write_text(f"{TEXT}\nA cat lay.\n我爱北京。\nThe dog!\n", "utf-8")
    places = looked(command, "contexts", bert, "cat", tmp_path / "texts.txt")
    assert "self-similarity" in places and "[cat]" in places


def test_wide_characters_stay_in_line(command, tiny_models):
    table = looked(command, "tokens", tiny_models["bert"], "我爱 P")
    ends = ("e6 88 91", "e7 88 b1", "  50")  # the bytes of the three characters
    lines = [next(line for line in table.splitlines() if line.endswith(end)) for end in ends]
    begins = {width(line.removesuffix(end.strip())) for line, end in zip(lines, ends, strict=True)}
    assert len(begins) == 1


@pytest.mark.parametrize("view", ["attention", "lens", "attribute", "tokens"])
def test_json_is_what_python_gives(command, tiny_models, view):
    import clozeworks as cw

    bert = tiny_models["bert"]
    found = json.loads(looked(command, view, bert, GAP, "--json"))
    look = cw.load(bert).look
    expected = getattr(look, view)(GAP).to_dict()
    assert found.keys() == expected.keys()
    if view != "attribute":
        assert found == json.loads(json.dumps(expected))


def test_a_page_needs_nothing_from_elsewhere(command, tiny_models, tmp_path):
    page = tmp_path / "look.html"
    hostile = "</script><img src=x onerror=alert(1)> [MASK]"
    out = looked(command, "tokens", tiny_models["bert"], hostile, "-o", page)
    assert f"{page}: the same in a browser" in out
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?:", text)
    assert "<img" not in text and text.count("</script>") == 3
    record = json.loads(re.search(r'id="record">(.*?)</script>', text, re.S)[1])
    assert record["texts"] == [hostile]  # whole, and nothing a browser would read
    assert record == json.loads(looked(command, "tokens", tiny_models["bert"], hostile, "--json"))
    again = command("look", "tokens", tiny_models["bert"], GAP, "-o", page)
    assert again.code == 2 and "--overwrite" in again.err
    for name in re.findall(r'from "([^"]*)"', page_alone(record, "zh")):
        assert name.startswith("clozeworks/")


def test_refusals(refused, tiny_models, tmp_path):
    bert = tiny_models["bert"]
    refused("--head is 9; this model has 2 heads; use 1 to 2.", "look", "attention", bert, TEXT,
            "--head", 9)  # fmt: skip
    refused("--gap is 0; it must be at least 1.", "look", "attribute", bert, GAP, "--gap", 0)
    refused(
        "--number is 2; --word is given, too; leave one out.",
        "look", "attribute", bert, GAP, "--word", "a", "--number", 2,
    )  # fmt: skip
