"""What the other tests here rely on: a visit notices what goes wrong on a page."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

pytestmark = pytest.mark.browser
FAULTS = {
    "console": "console.error('spilt')",
    "script": "missing.name",
    "asked elsewhere": "fetch('http://127.0.0.1:9/').catch(() => 0)",
    "dialog": "alert('owned')",
}


@pytest.fixture(scope="module")
def plain_pages():
    """A server whose page runs what its address says."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            fault = FAULTS.get(self.path[1:].replace("-", " "), "")
            body = (
                "<!doctype html><html lang=en><title>a</title><link rel=icon href='data:,'>"
                f"<main><h1>A page</h1><script>{fault}</script>"
                + ("<img src='data:,'>" if self.path == "/unnamed" else "")
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(visit, plain_pages, fault):
    visited = visit(plain_pages)
    visited.page.goto(f"{plain_pages}/{fault.replace(' ', '-')}")
    visited.page.wait_for_timeout(200)
    assert any(each.startswith(fault) for each in visited.wrong)
    with pytest.raises(AssertionError, match=fault):
        visited.check()
    visited.wrong.clear()


def test_a_page_without_fault_passes(visit, plain_pages, findings):
    visited = visit(plain_pages)
    visited.page.goto(f"{plain_pages}/none")
    assert findings(visited.page) == []
    visited.check()


def test_axe_is_asked(visit, plain_pages, findings):
    visited = visit(plain_pages)
    visited.page.goto(f"{plain_pages}/unnamed")
    assert any("image-alt" in each for each in findings(visited.page))
