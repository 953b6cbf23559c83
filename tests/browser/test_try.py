"""Try: every kind of question is asked and answered, by mouse and by keyboard; files, too."""

import csv
import json

import pytest

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=\"alert('owned')\">"
NAMES = ("words", "spam", "hostile", "entities", "questions", "pairs", "t5", "chat", "documents")


@pytest.fixture(scope="module")
def served(running, workspace):
    with running("serve", *(workspace / name for name in NAMES)) as server:
        yield server


def ask(page):
    page.locator(".card button.main").first.click()
    page.wait_for_selector(".result[aria-busy=true]", state="detached")


# The model, what it is asked, and where its answer is found.
WIDGETS = {
    "gaps": ("words/fill", ".bars button"),
    "vectors": ("words/embed", ".heat .cell"),
    "labels": ("spam/classify", ".answer .bars"),
    "entities": ("entities/tag", ".answer .marked"),
    "answers": ("questions/answer", ".answer .headline"),
    "pairs": ("pairs/compare", ".answer .headline"),
    "ranking": ("pairs/rerank", ".result .bars"),
    "search": ("documents/search", ".hits mark"),
    "writing": ("t5/generate", ".token"),
    "likelihood": ("chat/score", ".token"),
    "text to text": ("t5/text-to-text", ".answer p"),
}


@pytest.mark.parametrize("kind", WIDGETS)
def test_each_kind_is_answered(served, visit, look, findings, kind):
    place, answer = WIDGETS[kind]
    page = visit(served.url, **look).go(f"try/{place}")
    page.wait_for_selector(".card button.main")
    assert findings(page) == []
    ask(page)
    page.wait_for_selector(answer)
    assert page.locator(".mistake").count() == 0
    assert findings(page) == []
    if look["language"] == "zh":  # what the server calls things is translated
        assert page.locator("label").first.inner_text() == "模型"


@pytest.mark.parametrize("kind", WIDGETS)
def test_nothing_is_wider_than_a_phone(served, visit, kind):
    place, answer = WIDGETS[kind]
    page = visit(served.url, viewport={"width": 360, "height": 640}).go(f"try/{place}")
    ask(page)
    page.wait_for_selector(answer)
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_word_goes_into_its_gap(served, visit, until):
    page = visit(served.url).go("try/words/fill")
    page.get_by_label("Text").fill("the [MASK] sat on the [MASK]")
    ask(page)
    assert page.locator(".bars").count() == 2
    page.locator(".bars").nth(1).locator("button").nth(2).click()
    until(page, "document.querySelectorAll('.bars').length == 1")
    text = page.get_by_label("Text").input_value()
    assert text.startswith("the [MASK] sat on the") and text.count("[MASK]") == 1
    page.get_by_label("Text").fill("no gap")
    ask(page)
    assert "has no gap" in page.locator(".mistake").inner_text()


def test_hostile_texts_and_labels_are_texts(served, visit):
    page = visit(served.url).go("try/hostile")
    page.get_by_label("text", exact=True).fill(HOSTILE)
    ask(page)
    assert HOSTILE in page.locator(".answer").inner_text()
    page = visit(served.url).go("try/documents")
    page.get_by_label("Query").fill(HOSTILE)
    ask(page)
    page.wait_for_selector(".hits")
    assert HOSTILE in page.locator(".hits").inner_text()
    page = visit(served.url).go("try/words/embed")
    page.get_by_label("Sentences").fill(f"{HOSTILE}\na text")
    ask(page)
    assert HOSTILE in page.locator(".heat").inner_text()
    assert page.locator("img[src=x]").count() == 0


def test_text_is_written_token_by_token(served, visit, until):
    page = visit(served.url).go("try/t5/generate")
    page.locator("summary:has-text('Settings')").click()
    page.get_by_label("At most so many tokens").fill("12")
    page.get_by_role("button", name="Write", exact=True).click()
    until(page, "document.querySelectorAll('.token').length == 12")
    page.wait_for_selector("[role=status]:has-text('the limit of 12 tokens')")
    page.locator(".token").nth(3).click()
    page.wait_for_selector("h3:has-text('In place of')")
    other = page.locator(".bars button").nth(2)
    chosen = other.inner_text().removeprefix("␣")
    other.click()
    page.wait_for_selector("[role=status]:has-text('the limit of 12 tokens')")
    until(page, "document.querySelectorAll('.token').length == 12")
    assert page.locator(".token").nth(3).inner_text() == chosen
    page.get_by_role("button", name="Clear").click()
    for count in (1, 2):
        page.get_by_role("button", name="Next token").click()
        until(page, f"document.querySelectorAll('.token').length == {count}")
        page.wait_for_selector(f"[role=status]:has-text('the limit of {count} tokens')")


def test_a_long_text_is_stopped(served, visit, until):
    page = visit(served.url).go("try/t5/generate")
    page.locator("summary:has-text('Settings')").click()
    page.get_by_label("At most so many tokens").fill("5000")
    page.get_by_role("button", name="Write", exact=True).click()
    until(page, "document.querySelectorAll('.token').length > 3")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("[role=status]:has-text('Stopped')")
    count = page.locator(".token").count()
    page.wait_for_timeout(300)
    assert page.locator(".token").count() == count < 5000


def test_a_chat_shows_what_the_model_reads(served, visit, until):
    page = visit(served.url).go("try/chat/generate")
    page.locator("summary:has-text('Settings')").click()
    page.get_by_label("At most so many tokens").fill("5")
    page.get_by_label("Message").fill("the cat")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]:has-text('tokens were read')")
    page.locator("summary:has-text('What the model reads')").click()
    assert page.locator("pre").inner_text().startswith("user : the cat assistant :")
    page.get_by_label("Message").fill("and the dog")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.turn').length == 3")
    until(page, "document.querySelector('pre').textContent.includes('and the dog')")


def test_characters_outside_the_first_plane_keep_their_places(served, visit):
    """Python counts characters, JavaScript halves of them."""
    page = visit(served.url).go("try/questions/answer")
    page.get_by_label("Context").fill("😀😀 the cat sat 😀 on the mat")
    page.get_by_label("Question").fill("who sat?")
    ask(page)
    answer = page.locator(".answer .headline strong").inner_text()
    marked = page.locator(".answer mark")
    assert marked.count() == 0 or marked.inner_text() == answer


def test_a_file_is_answered_row_by_row_and_saved(served, visit, workspace, tmp_path):
    page = visit(served.url).go("try/spam")
    page.set_input_files("input[type=file]", workspace / "reviews.csv")
    page.wait_for_selector("text=reviews.csv: 20 rows with text, label.")
    assert page.get_by_role("group", name="Columns").locator("select").input_value() == "text"
    page.get_by_role("button", name="Answer all rows").click()
    page.wait_for_selector("button:has-text('Save as CSV')")
    assert "20 of 20 rows." in page.locator("main").inner_text()
    assert page.locator("tbody tr").count() == 20
    assert HOSTILE in page.locator("tbody").inner_text()
    with page.expect_download() as table:
        page.get_by_role("button", name="Save as CSV").click()
    with page.expect_download() as lines:
        page.get_by_role("button", name="Save as JSON lines").click()
    assert table.value.suggested_filename == "reviews.answers.csv"
    with table.value.path().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20 and rows[3]["text"] == HOSTILE
    assert {row["prediction"] for row in rows} <= {"good", "bad"}
    kept = [json.loads(line) for line in lines.value.path().read_text().splitlines()]
    assert len(kept) == 20 and kept[3]["answer"]["label"] == rows[3]["prediction"]
    assert float(rows[3]["score"]) == pytest.approx(kept[3]["answer"]["score"])


FILES = {
    "lines.txt": "the cat\n\nthe dog\n",
    "table.tsv": 'id\treview\n1\t"the ""cat""\nsat"\n2\tthe dog\n',
    "rows.jsonl": '{"sentence": "the cat", "n": 1}\n{"sentence": "the dog"}\n',
    "old.csv": "内容,编号\n我爱北京,1\n天气很好,2\n".encode("gb18030"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_all_kinds(served, visit, tmp_path, name):
    content = FILES[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    page = visit(served.url).go("try/spam")
    page.set_input_files("input[type=file]", tmp_path / name)
    page.get_by_role("button", name="Answer all rows").click()
    page.wait_for_selector("button:has-text('Save as CSV')")
    assert page.locator("tbody tr").count() == 2
    first = page.locator("tbody tr td").nth(1).inner_text()
    wanted = {"table.tsv": 'the "cat"\nsat', "old.csv": "我爱北京"}.get(name, "the cat")
    assert first.split() == wanted.split()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("picture.png", b"png", "This kind of file is not read here"),
        ("empty.csv", b"text,label\n", "The file holds no row."),
        ("broken.jsonl", b"{", "broken.jsonl cannot be read"),
        (f"{HOSTILE.replace('/', '')}.jsonl", b"{", "cannot be read"),
        ("large.txt", b"a" * 20_000_001, "The file is larger than 20 MB"),
    ],
)
def test_files_that_cannot_be_read(served, visit, tmp_path, name, content, sentence):
    page = visit(served.url).go("try/spam")
    page.set_input_files(
        "input[type=file]", {"name": name, "mimeType": "text/plain", "buffer": content}
    )
    page.wait_for_selector(".mistake")
    assert sentence in page.locator(".mistake").inner_text()


def test_a_row_that_is_refused_does_not_stop_the_others(served, visit):
    page = visit(served.url)
    page.allowed.append("422")
    page = page.go("try/spam")
    rows = b"text\nthe cat\n   \nthe dog\n"
    page.set_input_files(
        "input[type=file]", {"name": "a.csv", "mimeType": "text/csv", "buffer": rows}
    )
    page.get_by_role("button", name="Answer all rows").click()
    page.wait_for_selector("button:has-text('Save as CSV')")
    assert "1 could not be answered" in page.locator("main").inner_text()
    assert "is empty" in page.locator("tbody tr").nth(1).inner_text()
    assert page.locator("tbody tr").nth(2).locator("td").nth(2).inner_text() in ("good", "bad")


def test_a_file_is_dropped(served, visit):
    page = visit(served.url).go("try/spam")
    page.wait_for_selector("input[type=file]")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["a text\\nanother"], "dropped.txt"));
          const drop = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
          document.querySelector("h2").dispatchEvent(drop);
        }"""
    )
    page.wait_for_selector("text=dropped.txt: 2 rows with text.")


def test_the_keyboard_alone_asks_and_reads(served, visit):
    page = visit(served.url).go("try/words/fill")
    page.wait_for_selector(".card button.main")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "[document.activeElement.tagName, document.activeElement.textContent.slice(0, 20)]"
            )
        )
        if reached[-1][1] == "Rank words":
            break
    assert reached[0] == ["A", "Skip to the content"]
    assert {"SELECT", "TEXTAREA", "INPUT", "BUTTON"} <= {tag for tag, _ in reached}
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px"
    page.keyboard.press("Enter")
    page.wait_for_selector(".bars button")
    while page.evaluate("!document.activeElement.closest('.bars')"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "[MASK]" not in page.get_by_label("Text").input_value()


def test_two_browsers_ask_at_once(served, visit):
    pages = [visit(served.url).go("try/t5/generate") for _ in range(2)]
    for page in pages:
        page.get_by_role("button", name="Write", exact=True).click()
    for page in pages:
        page.wait_for_selector("[role=status]:has-text('tokens were read')")
    texts = [page.locator(".tokens").inner_text() for page in pages]
    assert texts[0] == texts[1]


def test_what_was_typed_is_there_again(served, visit):
    page = visit(served.url).go("try/spam")
    page.get_by_label("text", exact=True).fill("something of my own")
    page.get_by_role("link", name="Tour").click()
    page.wait_for_selector("h1:text('Tour')")
    page.get_by_role("link", name="Try").click()
    page.wait_for_selector("h1:text('Try')")
    page.wait_for_selector("textarea")
    assert page.get_by_label("text", exact=True).input_value() == "something of my own"
    page.get_by_label("Language").select_option("zh")
    page.wait_for_selector("h1:text('试用')")
    page.wait_for_selector("textarea")
    assert page.get_by_label("文本", exact=True).input_value() == "something of my own"


def test_a_file_goes_on_when_the_server_is_back(running, workspace, visit, until):
    with running("serve", workspace / "spam") as server:
        visited = visit(server.url)
        visited.allowed.append("Failed to load resource")
        page = visited.go("try/spam")
        rows = ("a text to be labelled\n" * 4_000).encode()
        page.set_input_files(
            "input[type=file]", {"name": "a.txt", "mimeType": "text/plain", "buffer": rows}
        )
        page.get_by_role("button", name="Answer all rows").click()
        until(page, "document.querySelector('progress').value > 30")
        server.stop()
        page.wait_for_selector(".notice:has-text('does not answer')")
        server.start()
        page.wait_for_selector(".notice", state="hidden", timeout=60_000)
        before = page.evaluate("document.querySelector('progress').value")
        until(page, f"document.querySelector('progress').value > {before}")
        page.get_by_role("button", name="Stop").last.click()
        page.wait_for_selector("button:has-text('Save as CSV')")
