"""Labels, columns and names of files stay texts in a card, whatever they hold."""

import csv
import re

import pytest
import yaml
from markdown_it import MarkdownIt

from clozeworks.jobs.finetune.job import finetune
from clozeworks.reports.markdown import cell, code_block, code_span, plain_text, yaml_value

HOSTILE = [
    "]\n---\n# Heading",
    "`",
    "``a` b",
    "<img src=x onerror=alert(1)>",
    "| a | b |",
    "\\| a",
    "[x](javascript:alert(1)) ![y](z)",
    "</code></script><script>",
    "*a* _b_ ~~c~~ $d$ &lt; &#60; \\",
    "a\x1b[2J\x9b\u202e\ufffe\U000e0001",
    "---",
    "null",
    " ",
    "```\n```",
]
WIDE = MarkdownIt("gfm-like", {"html": True, "linkify": False})


def tokens(text):
    for token in WIDE.parse(text):
        yield token
        yield from token.children or ()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_stays_a_text(text):
    shown = plain_text(text)
    found = [each for each in tokens(f"before {shown} after") if each.type != "text"]
    assert [each.type for each in found] == ["paragraph_open", "inline", "paragraph_close"]
    in_one_line = " ".join(text.split())
    words = "".join(each.content for each in tokens(f"before {shown} after") if each.type == "text")
    if in_one_line.isprintable():
        assert words == f"before {in_one_line} after"


@pytest.mark.parametrize("text", HOSTILE)
def test_code_stays_code(text):
    spans = [each for each in tokens(f"a {code_span(text)} b") if each.type == "code_inline"]
    in_one_line = " ".join(text.split())
    assert len(spans) == bool(in_one_line)
    if in_one_line.isprintable():
        assert [each.content for each in spans] == [in_one_line] * len(spans)
    blocks = [each for each in tokens(f"{code_block(text, 'python')}\nb") if each.type == "fence"]
    assert [each.content for each in blocks] == [text + "\n"] or "\x1b" in text


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", [plain_text, code_span])
def test_a_cell_stays_a_cell(text, form):
    table = f"| a | b |\n| --- | --- |\n| {cell(form(text))} | c |\n"
    found = [each.type for each in tokens(table)]
    assert found.count("td_open") == 2 and found.count("tr_open") == 2
    assert not {"html_inline", "html_block", "link_open", "image", "em_open"} & set(found)


@pytest.mark.parametrize("text", HOSTILE)
def test_yaml_stays_on_its_line(text):
    front = f"first: {yaml_value([text, {text: 1}])}\nsecond: 2\n"
    assert yaml.safe_load(front) == {"first": [text, {text: 1}], "second": 2}
    assert front.count("\n") == 2


def test_a_card_with_hostile_labels(tiny_models, tmp_path):
    names = [text for text in HOSTILE if text.strip() and "\x1b" not in text and "\n" not in text]
    path = tmp_path / "<img src=x>|`_a_`\x1b.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = [(f"the cat {n} {k}", name) for n in range(4) for k, name in enumerate(names)]
        csv.writer(file).writerows([("text", "label"), *rows])
    done = finetune(
        {
            "run": str(tmp_path / "run"),
            "model": str(tiny_models["bert"]),
            "task": {"kind": "classify"},
            "data": {"train": [str(path)], "dev_fraction": 0.25},
            "training": {"epochs": 0.1},
        }
    )
    text = (done.model / "README.md").read_text(encoding="utf-8")
    _, front, body = re.split(r"^---$", text, maxsplit=2, flags=re.MULTILINE)
    metadata = yaml.safe_load(front)
    assert path.name in metadata["model-index"][0]["results"][0]["dataset"]["name"]
    found = list(tokens(body))
    kinds = {each.type for each in found}
    assert not {"html_inline", "html_block", "link_open", "image", "hr", "em_open"} & kinds
    headings = [each.tag for each in found if each.type == "heading_open"]
    assert headings == ["h1", "h2", "h2", "h2", "h2"]
    spans = [each.content for each in found if each.type == "code_inline"]
    assert {" ".join(name.split()) for name in names} <= set(spans)
    assert "\x1b" not in text
    page = (done.folder / "report.html").read_text(encoding="utf-8")
    assert "<img src=x" not in page and "<script" not in page
