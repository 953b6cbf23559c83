"""The page's files: which there are, what a browser is told about them, what they may hold."""

import re
from pathlib import Path

import pytest

import clozeworks
from clozeworks.serve.application import all_endpoints
from clozeworks.serve.limits import Keys, digest
from clozeworks.serve.page_files import page_files

PAGE = Path(clozeworks.__file__).parent / "serve" / "page"
MOST_BYTES = 150_000


@pytest.fixture(scope="module")
def client(asking):
    with asking("spam", "bert", endpoints=all_endpoints()) as client:
        yield client


def test_the_methods_of_its_path_are_listed(client):
    assert client.options("/").headers["allow"] == "POST, GET, HEAD, OPTIONS"
    refused = client.delete("/")
    assert refused.status_code == 405 and "GET" in refused.headers["allow"]


def test_every_file_is_served_as_it_lies_there(client):
    files = page_files()
    assert files.keys() == {
        path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file()
    }
    for name in files:
        address = "/" if name == "index.html" else f"/page/{name}"
        response = client.get(address)
        assert response.status_code == 200
        assert response.content == (PAGE / name).read_bytes()
        head = client.head(address)
        assert head.status_code == 200 and head.content == b""
        assert head.headers["etag"] == response.headers["etag"]
    assert client.get("/page/app.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/page/style.css").headers["content-type"].startswith("text/css")
    assert client.get("/").headers["content-type"].startswith("text/html")


def test_a_browser_is_told_to_run_nothing_else(client):
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy and "unsafe" not in policy
    for name in ("x-content-type-options", "x-frame-options", "referrer-policy"):
        assert client.get("/page/app.js").headers[name]


def test_what_a_browser_has_is_not_sent_again(client):
    etag = client.get("/page/app.js").headers["etag"]
    again = client.get("/page/app.js", headers={"if-none-match": f'"other", W/{etag}'})
    assert again.status_code == 304 and again.content == b""
    assert again.headers["cache-control"] == "no-cache"
    assert client.get("/page/app.js", headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/page/", "/page", "/page/index.html", "/page/../app.py", "/page/%2e%2e/app.py", "/page/x.js"],
)
def test_nothing_else_is_there(client, path):
    response = client.get(path)
    assert response.status_code == 404
    assert "there is nothing at" in response.json()["error"]["message"]


def test_other_methods_of_the_root_are_answered_as_before(client):
    posted = client.post("/", json={"inputs": "a text"})
    assert posted.status_code in (200, 404, 422)  # in the words of huggingface_hub
    refused = client.put("/")
    assert refused.status_code == 405 and refused.headers["allow"] == "POST, GET, HEAD, OPTIONS"
    assert client.put("/page/app.js").status_code == 405


def test_the_page_needs_no_key_and_its_answers_do(asking):
    with asking("spam", endpoints=all_endpoints(), keys=Keys([digest("secret")])) as client:
        assert client.get("/").status_code == 200
        assert client.get("/v1/page").status_code == 401
        headers = {"authorization": "Bearer secret"}
        assert client.get("/v1/page", headers=headers).status_code == 200


def test_the_server_says_what_can_be_shown(client):
    offered = client.get("/v1/page").json()
    assert offered["version"] == clozeworks.__version__
    assert offered["models"] == ["spam", "bert"]
    assert {"try", "compare", "tour"} <= set(offered["views"])
    assert {"classify", "fill"} <= set(offered["abilities"])
    assert {"/v1/classify", "/v1/abilities"} <= set(offered["paths"])


# What the files hold.


def sources():
    return {name: file.content.decode() for name, file in page_files().items()}


def test_it_is_small():
    """All of it, every view in both languages, as a browser is sent it."""
    assert sum(len(file.compressed) for file in page_files().values()) <= MOST_BYTES


def test_whoever_reads_no_gzip_is_sent_none(client):
    plain = client.get("/page/app.js", headers={"accept-encoding": "identity"})
    zipped = client.get("/page/app.js", headers={"accept-encoding": "gzip, br"})
    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip" and plain.content == zipped.content
    assert int(zipped.headers["content-length"]) < len(plain.content) / 2
    assert plain.headers["etag"] != zipped.headers["etag"]
    assert "accept-encoding" in zipped.headers["vary"].lower()


def test_no_text_ever_becomes_html_or_code():
    """Texts of models, files and people become text nodes; there is no other way in."""
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
    ways += r"|createContextualFragment|DOMParser|javascript:|setHTML|\.on[a-z]+\s*="
    for name, text in sources().items():
        assert not re.search(ways, text), name
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|<style|\bstyle=", text)


def test_nothing_is_asked_of_another_host():
    for name, text in sources().items():
        assert set(re.findall(r"\w+://[\w.]*", text)) <= {"http://www.w3.org"}, name
        assert not re.search(r"""["'(]//""", text), name


def test_modules_import_files_that_are_there():
    for name, text in sources().items():
        folder = (PAGE / name).parent
        for path in re.findall(r"""from "(\.[^"]+)\"""", text):
            assert (folder / path).is_file(), (name, path)


def test_every_string_is_there_in_both_languages():
    for path in sorted((PAGE / "strings").glob("*.js")):
        strings = path.read_text(encoding="utf-8").partition("export const en = {")[2]
        english, chinese = strings.split("export const zh = {")
        keys = [re.findall(r"^  (\w+):", part, re.MULTILINE) for part in (english, chinese)]
        assert keys[0] == keys[1], path.name
        assert len(set(keys[0])) == len(keys[0]), path.name
        assert {"title", "about"} <= set(keys[0]) or path.name == "app.js"


def strings_of(name):
    """The keys of a file of strings, and of those that it takes from others."""
    text = (PAGE / "strings" / name).read_text(encoding="utf-8")
    own = set(re.findall(r"^  (\w+):", text.partition("export const en")[2], re.MULTILINE))
    return own.union(*map(strings_of, re.findall(r'from "\./(\w+\.js)"', text)))


def asked_in(path):
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"""\bt\("(\w+)\"""", text))


def test_every_string_that_is_asked_for_is_there():
    for path in (PAGE / "views").glob("*.js"):
        assert asked_in(path) <= strings_of(path.name), path.name
    for path in [PAGE / "asking.js", *(PAGE / "widgets").glob("*.js")]:
        assert asked_in(path) <= strings_of("try.js"), path.name
    assert asked_in(PAGE / "app.js") <= strings_of("app.js")
