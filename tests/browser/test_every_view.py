"""Every view that the navigation offers, of a folder with everything in it."""

import pytest

pytestmark = pytest.mark.browser
MOST_BYTES = 150_000


def views(page):
    """Where the links of the navigation lead."""
    links = page.locator("nav a")
    return [link.get_attribute("href") for link in links.all()]


def open_view(visited, address):
    page = visited.go(address.removeprefix("#/"))
    page.wait_for_selector("main h1")
    page.wait_for_timeout(300)
    assert page.locator("main > .mistake").count() == 0, page.locator("main").inner_text()
    return page


def test_each_is_shown_and_accessible(opened, visit, look, findings):
    visited = visit(opened.url, **look)
    addresses = views(visited.go(""))
    names = ["try", "look", "compare", "runs", "data", "server", "tour"]
    assert addresses == [f"#/{name}" for name in names]
    titles = set()
    for address in addresses:
        page = open_view(visited, address)
        titles.add(page.title())
        assert page.locator("nav a[aria-current=page]").count() == 1
        assert findings(page) == [], address
    assert len(titles) == len(addresses)


def test_each_fits_a_phone(opened, visit):
    visited = visit(opened.url, viewport={"width": 360, "height": 640})
    for address in views(visited.go("")):
        page = open_view(visited, address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, address


def test_all_of_it_is_small(opened, visit):
    """What a browser is sent of the page itself, when somebody looks at all views."""
    visited = visit(opened.url)
    sizes = {}

    def note(response):
        path = response.url.removeprefix(opened.url)
        if path == "/" or path.startswith("/page/"):
            sizes[path] = int(response.headers["content-length"])

    visited.page.on("response", note)
    for address in views(visited.go("")):
        open_view(visited, address)
    assert len(sizes) > 15 and sum(sizes.values()) <= MOST_BYTES


def test_the_navigation_is_reached_by_keyboard(opened, visit):
    page = visit(opened.url).go("")
    names = page.locator("nav a").all_inner_texts()
    reached = []
    for _ in range(len(names) + 6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent"))
    assert [each for each in reached if each in names] == names
