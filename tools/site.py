"""Completes the site that mkdocs builds from docs/: pages from elsewhere, API pages, navigation.

mkdocs calls the `on_…` functions (`hooks` in mkdocs.yml). Pages that lie outside docs/, such as the
README, become pages of the site. Every package becomes an API page, written from its docstrings.
Links are those of the repository, so that they also work where the repository is browsed: a link to
a page is led to its page, and a link to any other file to a copy of that file, as plain text.
"""

import ast
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "clozeworks"
# Files outside docs/ that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "README.zh.md": "index.zh.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)([^)]*\))")
FENCE = re.compile(r"^( *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """States the navigation, so that a new guide or decision needs no entry anywhere."""
    guides = sorted((ROOT / "docs" / "guides").glob("*.md"))
    chinese = sorted((ROOT / "docs" / "guides" / "zh").glob("*.md"))
    decisions = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    config.nav = [
        {"Home": [PAGES["README.md"], *(PAGES[name] for name in PAGES if "README" not in name)]},
        {"Guides": [_under_docs(path) for path in guides]},
        {"中文": [PAGES["README.zh.md"], *(_under_docs(path) for path in chinese)]},
        {"API": [f"api/{name}.md" for name in _packages()]},
        {
            "How it works": [
                *("walk.md", "map.md", "glossary.md", "papers.md"),
                {"Decisions": ["decisions/README.md", *(_under_docs(path) for path in decisions)]},
            ]
        },
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and files that do not lie in docs/."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text("utf-8")))
    for name, folder in _packages().items():
        page = _public_page() if folder == SOURCE else _package_page(folder)
        files.append(File.generated(config, f"api/{name}.md", content=page))
    linked = _linked_paths()
    for path in [path for path in linked if (ROOT / path).is_dir()]:
        inside = sorted(file for file in (ROOT / path).iterdir() if file.is_file())
        linked |= {file.relative_to(ROOT).as_posix() for file in inside}
        rows = "\n".join(f"- [{file.name}]({file.name}.txt)" for file in inside)
        page = f"# {path}/\n\n{rows}\n"
        files.append(
            File.generated(
                config, f"files/{path}/index.md", content=page, inclusion=InclusionLevel.NOT_IN_NAV
            )
        )
    for path in [path for path in linked if (ROOT / path).is_file()]:
        text = (ROOT / path).read_text("utf-8")
        files.append(File.generated(config, f"files/{path}.txt", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads the links of a page to what they name inside the site."""
    if page.file.src_uri.startswith("files/"):
        return markdown
    originals = {uri: path for path, uri in PAGES.items()}
    source = originals.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return _with_links(markdown, lambda link: _in_site(link, source, page.file.src_uri))


def _packages() -> dict[str, Path]:
    """The package itself, then every folder of it that holds modules, by dotted name."""
    folders = [folder.parent for folder in sorted(SOURCE.rglob("__init__.py"))]
    return {".".join(folder.relative_to(SOURCE.parent).parts): folder for folder in folders}


def _public_page() -> str:
    """What `import clozeworks` offers, then the modules beside it."""
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = sorted(
        f"{node.module}.{alias.name}"
        for node in imports
        for alias in node.names
        if node.module and node.module.startswith("clozeworks.")
    )
    # Each has its full entry on the page of its module, which other pages link to.
    blocks = [f"::: {name}\n    options:\n      skip_local_inventory: true" for name in names]
    blocks += [_block(path) for path in _modules(SOURCE)]
    summary = ast.get_docstring(tree) or ""
    packages = [
        f"- [`clozeworks.{alias.name}`](clozeworks.{alias.name}.md)"
        for node in imports
        for alias in node.names
        if node.module == "clozeworks" and (SOURCE / alias.name).is_dir()
    ]
    return "\n\n".join(["# clozeworks", summary, "\n".join(packages), *blocks]) + "\n"


def _package_page(folder: Path) -> str:
    name = ".".join(folder.relative_to(SOURCE.parent).parts)
    blocks = [_block(path) for path in [folder / "__init__.py", *_modules(folder)]]
    return "\n\n".join([f"# {name}", *blocks]) + "\n"


def _modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("__")]


def _block(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return f"::: {'.'.join(part for part in parts if part != '__init__')}"


def _linked_paths() -> set[str]:
    """Files and folders of the repository that pages link to and that are not pages."""
    linked: set[str] = set()
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PAGES)]:
        source = path.relative_to(ROOT).as_posix()
        for _, link, _ in LINK.findall(FENCE.sub("", path.read_text("utf-8"))):
            target = _target(link, source)
            if ":" not in link and not _page_of(target) and (ROOT / target).exists():
                linked.add(target)
    return linked


def _with_links(markdown: str, lead: Callable[[str], str]) -> str:
    """The text with every link outside code replaced by what `lead` makes of it."""
    parts = FENCE.split(markdown)
    for index in range(0, len(parts), 2):  # every second part is code
        parts[index] = LINK.sub(lambda m: m[1] + lead(m[2]) + m[3], parts[index])
    return "".join(parts)


def _in_site(link: str, source: str, page: str) -> str:
    if ":" in link:
        return link
    target = _target(link, source)
    uri = _page_of(target)
    if uri is None and (ROOT / target).exists():
        uri = f"files/{target}.txt" if (ROOT / target).is_file() else f"files/{target}/index.md"
    return link if uri is None else posixpath.relpath(uri, posixpath.dirname(page) or ".")


def _target(link: str, source: str) -> str:
    """The path in the repository that a link in the file `source` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _page_of(target: str) -> str | None:
    if target in PAGES:
        return PAGES[target]
    if (ROOT / target).is_dir() and (ROOT / target / "README.md").exists():
        target = f"{target}/README.md"
    return target.removeprefix("docs/") if target.startswith("docs/") else None


def _under_docs(path: Path) -> str:
    return path.relative_to(ROOT / "docs").as_posix()
