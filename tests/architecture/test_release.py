"""What a release says about itself is the same everywhere."""

import re
import tomllib
from pathlib import Path

import clozeworks

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_is_the_same_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert PROJECT["version"] == clozeworks.__version__
    assert re.search(r"^## (\d\S*)", changes, re.MULTILINE).group(1) == clozeworks.__version__
    assert re.search(r"^version: (\S+)", citation, re.MULTILINE).group(1) == clozeworks.__version__


def test_the_changelog_is_by_version_and_kind_of_change():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in re.split(r"^## ", changes, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert kinds, version.splitlines()[0]
        assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_python_that_is_promised_is_tested():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    promised = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: (\[.*\])", workflow).group(1)) == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_contributing_lists_the_layers_that_are_checked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each["type"] == "layers"]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.search(r"```text\n(.*?)\n```", page, re.DOTALL).group(1).splitlines() == layers
    named = {name for line in layers for name in line.split(" | ")}
    inside = (ROOT / "src" / "clozeworks").iterdir()
    assert {path.name for path in inside if (path / "__init__.py").exists()} <= named


def test_the_wheel_holds_the_page():
    """Files that are not Python belong to the package as well: nothing leaves them out."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    assert wheel["build"]["targets"]["wheel"] == {"packages": ["src/clozeworks"]}
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    page = ROOT / "src" / "clozeworks" / "serve" / "page"
    for path in page.rglob("*"):
        assert not any(path.match(f"{each.strip('/')}") for each in ignored), path


def test_pictures_are_small_and_only_in_the_documentation():
    for folder in ("src", "tests", "docs", "tools", "benchmarks", "deploy"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".png", ".jpg", ".jpeg", ".gif", ".webp"):
                assert path.parent == ROOT / "docs" / "images" and path.suffix == ".png"
                assert path.stat().st_size <= 150_000, path
