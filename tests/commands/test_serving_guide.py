"""What the guide about serving says of paths, options, metrics and answers is so."""

import http.client
import importlib.util
import json
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clozeworks.cli.commands.serve import ServingOptions
from clozeworks.serve.application import all_endpoints
from clozeworks.serve.metrics import ServerMetrics
from clozeworks.serve.scheduler import Scheduler

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
LANGUAGES = {"en": GUIDES, "zh": GUIDES / "zh"}
FILES = Path(__file__).parent / "guide_files" / "serving.py"
TEXT_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Options of other programs that the guide names.
FOREIGN = {"--graceful-timeout", "--preload", "--tasks", "--model"}


def text_of(language):
    return (LANGUAGES[language] / "serving.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_has_every_path_and_no_other(language):
    table = re.search(r"^\| (?:words of|接口).*?\n\n", text_of(language), re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"`(?:GET )?(/[\w/-]*)`", table.group()))
    real = {each.path for each in all_endpoints()}
    assert {path for path in named if path != "/pipeline/TASK"} <= real
    missing = {path for path in real - named if not path.startswith("/pipeline/")}
    # Those of our own have a rule: one for each command, and labels without training.
    assert all(path.startswith("/v1/") and each_is_ours(path) for path in missing), missing


def each_is_ours(path):
    return all(each.dialect.name == "clozeworks" for each in all_endpoints() if each.path == path)


@pytest.mark.parametrize("language", LANGUAGES)
def test_options_defaults_and_metrics_are_real(language, command):
    text, shown = text_of(language), command("serve", "--help").out
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - FOREIGN
    assert [each for each in options if f"{each} " not in shown] == []
    usual = ServingOptions()
    for value in (usual.tokens, usual.requests, usual.inputs, usual.body_mb, usual.timeout):
        assert re.search(rf"\| [^|\n]*{value:,g}[^|\n]*\|", text), value
    metrics = ServerMetrics(Scheduler()).text().decode()
    named = set(re.findall(r"clozeworks_[a-z_]+", text))
    assert len(named) > 5 and all(f"# TYPE {each} " in metrics for each in named)


@pytest.mark.parametrize("language", LANGUAGES)
def test_lines_of_curl_are_answered_as_shown(language, tmp_path):
    spec = importlib.util.spec_from_file_location("guide_files_serving", FILES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.prepare(tmp_path, language)
    asked = 0
    with module.running(tmp_path) as stand_ins:
        host = urlsplit(stand_ins[module.ADDRESS]).netloc
        for block in TEXT_BLOCK.findall(text_of(language)):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                words = shlex.split(line)
                if words[0] != "curl":
                    continue
                connection = http.client.HTTPConnection(host, timeout=30)
                connection.request("POST", urlsplit(words[1]).path, words[words.index("-d") + 1])
                response = connection.getresponse()
                found = json.loads(response.read())
                connection.close()
                assert response.status == 200, found
                expected = json.loads(shown.replace("\n", ""))
                assert shape(expected) == shape(found)
                asked += 1
    assert asked == 2


def shape(value):
    """The names and kinds in an answer, whatever their values."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items() if name != "scores"}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value).__name__
