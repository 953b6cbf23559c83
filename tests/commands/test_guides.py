"""What a guide says can be typed, can be: every command, program and recipe, in both languages.

Each guide is followed from its beginning to its end in a folder of its own. What a reader would
bring along (texts, labelled files, a model) is made by `guide_files/NAME.py`; what runs meanwhile,
such as a server, by its `running`, which says what stands for what the guide writes.
"""

import importlib.util
import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest

from clozeworks.errors import ClozeworksError

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
FILES = Path(__file__).parent / "guide_files"
# How to write code; tests of their own follow them.
NOT_FOLLOWED = {"new-family", "new-task", "foreign-formats"}
LANGUAGES = {"en": GUIDES, "zh": GUIDES / "zh"}
NAMES = sorted(path.stem for path in GUIDES.glob("*.md") if path.stem not in NOT_FOLLOWED)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SETTING = re.compile(
    r"`((?:(?:training|task|evaluation|selection|data|search|lora|augment|adversarial)\.[\w.]+|head)=[^`]+)`"
)
# Settings that have an effect only beside another one.
GOES_WITH = {
    "keep_first": "task.windows.keep=both",
    "length_penalty": "task.writing.num_beams=2",
    "task.loss.": "task.loss.kind=multiple_negatives_ranking",
    "task.loss.weighting": "task.loss.kind=lambda_loss",
    "task.loss.pos_weight": "task.loss.kind=binary_cross_entropy",
    "partition": 'task.loss.directions=["query_to_doc","doc_to_query"]',
}


def blocks(name, language):
    """The fenced blocks of a guide: what each is, and what it holds."""
    text = (LANGUAGES[language] / f"{name}.md").read_text(encoding="utf-8")
    return BLOCK.findall(text)


def commands(block):
    """The commands of a console block; a line that ends with \\ goes on in the next."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line[2:] for line in lines if line.startswith("$ ")]


def prepare(name, language, folder):
    source = FILES / f"{name.replace('-', '_')}.py"
    spec = importlib.util.spec_from_file_location(f"guide_files_{name}", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.prepare(folder, language)
    return module


def follow(name, language, module, command, stand_ins):
    """Does what a guide says; the names that its programs have in the end."""
    names: dict[str, object] = {}
    ran = 0
    for kind, block in blocks(name, language):
        for written, real in stand_ins.items():
            block = block.replace(written, real)
        if kind == "console":
            for line in commands(block):
                words = shlex.split(line, comments=True)
                assert words[0] == "clozeworks", f"{name}: only our own commands are run: {line}"
                short = getattr(module, "SHORT", {})
                less = short.get(" ".join(words[1:3]), short.get(words[1], ()))
                outcome = command(*words[1:], *less)
                assert outcome.code == 0, f"{name}: {line}\n{outcome.out}{outcome.err}"
                ran += 1
        elif kind == "python":
            exec(compile(block, f"{name}.md", "exec"), names)
            ran += 1
        elif kind == "toml":
            title = re.match(r"# (\S+\.toml)", block)
            assert title, f"{name}: a recipe begins with its file's name: # recipe.toml"
            Path(title.group(1)).write_text(block, encoding="utf-8")
            ran += 1
        else:
            assert kind in ("text", "csv", "json"), f"{name}: {kind or 'a block without a kind'}"
    assert ran
    return names


# The Chinese guides have the same commands, which a test below compares.
@pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_a_guide_can_be_followed(name, language, command, tmp_path, monkeypatch):
    module = prepare(name, language, tmp_path)
    monkeypatch.chdir(tmp_path)
    running = getattr(module, "running", lambda folder: nullcontext({}))
    with running(tmp_path) as stand_ins:
        names = follow(name, language, module, command, stand_ins)
        if hasattr(module, "followed"):
            module.followed(tmp_path, names)


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_say_the_same_commands(name):
    def shape(language):
        found = []
        for kind, block in blocks(name, language):
            found.append((kind, [line.split()[:3] for line in commands(block)]))
        return found

    assert shape("zh") == shape("en")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_setting_a_guide_names_is_one(name, language):
    from clozeworks import config
    from clozeworks.jobs.finetune.recipe import read_finetune_recipe
    from clozeworks.jobs.finetune.search import Search
    from clozeworks.jobs.pretrain.recipe import changed
    from clozeworks.tasks.task import task_classes

    text = (LANGUAGES[language] / f"{name}.md").read_text(encoding="utf-8")
    if "finetune" not in text:
        return
    for change in SETTING.findall(text):
        refused = []
        for kind in task_classes():
            least = {
                "run": "r",
                "model": "m",
                "task": {"kind": kind},
                "data": {"train": ["t.csv"]},
            }
            goes_with = [other for name, other in GOES_WITH.items() if name in change]
            settings = changed(least, [*goes_with, change])
            if (tried := settings.pop("search", None)) is not None:
                config.read(Search, tried, "search")
            try:
                read_finetune_recipe(settings)
            except ClozeworksError as error:
                refused.append(str(error))
        assert len(refused) < len(task_classes()), refused


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_every_guide_is_found_from_the_readme(readme):
    text = (GUIDES.parents[1] / readme).read_text(encoding="utf-8")
    names = [path.name for path in GUIDES.glob("*.md")]
    assert [name for name in names if f"/{name})" not in text] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_links_lead_somewhere(language):
    for path in LANGUAGES[language].glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (path.parent / target).exists(), f"{path.name}: {target}"
