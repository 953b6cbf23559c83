"""`make docs`: the site is built without a warning, is complete and needs nothing beside it."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="needs the extra [docs]: make test-all installs it")

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "clozeworks"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_is_loaded_from_elsewhere(site):
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:)?//|<link[^>]*stylesheet[^>]*//"
    )
    for path in site.rglob("*.html"):
        assert not loads.search(path.read_text(encoding="utf-8")), path


def test_every_public_name_is_documented(site):
    missing = []
    for path in SOURCE.rglob("*.py"):
        package = ".".join(path.parent.relative_to(SOURCE.parent).parts)
        module = package if path.stem == "__init__" else f"{package}.{path.stem}"
        if path.stem == "__main__" or module == "clozeworks":
            continue
        page = (site / "api" / f"{package}.html").read_text(encoding="utf-8")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                name = f"{module}.{node.name}"
                if f'id="{name}"' not in page:
                    missing.append(name)
    assert not missing


def test_the_public_face_is_one_page(site):
    import clozeworks

    page = (site / "api" / "clozeworks.html").read_text(encoding="utf-8")
    for name in set(clozeworks.__all__) - {"__version__"}:
        entry = re.search(rf'id="clozeworks[\w.]*\.{name}"', page)
        assert entry or f'href="clozeworks.{name}.html"' in page, name


@pytest.mark.parametrize("page", ["index", "index.zh", "changelog", "walk", "map", "glossary"])
def test_pages_from_elsewhere_are_there(site, page):
    assert (site / f"{page}.html").exists()
