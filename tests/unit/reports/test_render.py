"""Plain data becomes a page: everything is shown, shortened and escaped."""

import re

from clozeworks.reports.excerpts import AROUND, WITHOUT_MARKS, kept
from clozeworks.reports.render import (
    Banner,
    Bullets,
    Charts,
    Folded,
    Remark,
    Section,
    SettingsTable,
    detail_blocks,
    flat_settings,
    mistake_blocks,
    render_card,
    render_page,
    sessions_table,
)
from clozeworks.tasks.metrics.calibration import Bin
from clozeworks.tasks.results.details import (
    CalibrationCurve,
    ConfusionMatrix,
    DetailTable,
    DetailText,
    Mark,
    Mistake,
    Mistakes,
    ScatterPlot,
    marked,
)


def rendered(*blocks):
    page = render_page("t", "h", "s", [], [Section("here", blocks)])
    return page.split("<h2>here</h2>\n")[1].split("</body>")[0]


def words(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)).strip()


def mistake(*texts, kind="kind", gold="<g>", predicted="<p>"):
    return Mistake("file.csv, row 3", kind, gold, predicted, 0.9, "90.0% confident", texts)


def html(text):
    found = rendered(Mistakes({"kind": 1}, (mistake(text),)))
    return re.search(r"<blockquote>(.*)</blockquote>", found, re.DOTALL)[1]


def test_every_block_is_escaped():
    evil = "<i>&"
    text = rendered(
        DetailTable((evil, evil), ((evil, evil), (evil,))),
        DetailTable((evil,), ((evil, evil),), numbers=False),
        DetailText(evil),
        SettingsTable([(evil, evil)]),
        Remark(evil),
        Bullets([evil]),
        Folded(evil, [evil]),
        Mistakes({evil: 1}, (mistake(marked(evil), kind=evil),)),
    )
    assert "<i>" not in text and text.count("&lt;i&gt;&amp;") == 17
    page = render_page(evil, evil, evil, [Banner("failed", [evil], command=evil)])
    assert "<i>" not in page and page.count("&lt;i&gt;&amp;") == 5


def test_tables():
    text = rendered(DetailTable(("", "one", "two"), (("group",), ("a", "1", "2"))))
    assert '<th colspan="3" class="group">group</th>' in text
    assert '<th scope="row">a</th><td class="number">1</td>' in text
    text = rendered(DetailTable(("a", "b"), (("x" * 500, "y"),), numbers=False))
    assert "number" not in text and f"{'x' * 399}…" in text
    assert "a.<wbr>b[0].<wbr>c" in rendered(SettingsTable(flat_settings({"a": {"b": [{"c": 1}]}})))


def test_settings_that_are_none_are_left_out():
    assert flat_settings({"a": None, "b": {"c": [1], "d": []}}) == [("b.c", [1]), ("b.d", [])]


def test_sessions():
    table = sessions_table([{"began": "2026-01-02T03:04:05+00:00", "seed": 4}], ["seed"])
    assert table.columns[:2] == ("seed", "began")
    assert table.rows[0][:2] == ("4", "2026-01-02 03:04:05 UTC")


def test_details_are_drawn_by_their_class():
    table = DetailTable(("a",), ())
    blocks = detail_blocks(
        [
            ConfusionMatrix(("a", "b"), ((1, 0), (0, 1))),
            table,
            CalibrationCurve((Bin(0, 1, 1, 0.5, 0.5),)),
            ScatterPlot((1.0,), (2.0,)),
        ]
    )
    assert isinstance(blocks[0], Charts) and blocks[1:] == [table]
    titles = [re.search('aria-label="([^"]*)"', svg)[1] for svg in blocks[0].drawn]
    assert titles == ["Confusion matrix", "Calibration", "Gold and predicted numbers"]
    assert rendered(blocks[0]).count("<svg") == 3
    assert detail_blocks([ConfusionMatrix((), ())]) == []


def test_mistakes():
    few = Mistakes({"kind": 1}, (mistake(marked("text")),))
    text = rendered(*mistake_blocks(few))
    assert '<b class="gold">&lt;g&gt;</b>, predicted: <b class="predicted">&lt;p&gt;</b>' in text
    assert "kind, 90.0% confident; file.csv, row 3" in words(text)
    assert "All 1 mistakes" not in text and "The only mistake." in words(text)
    assert "<mark" not in text  # nothing is marked, so colours need no explanation
    many = Mistakes({"a": 70, "b": 2}, (mistake(marked("text", [Mark(0, 2, "gold")])),) * 2)
    text = words(rendered(*mistake_blocks(many)))
    assert "a 70 b 2 2 of 72 mistakes: the worst of each kind, the worst first." in text
    assert "gold predicted both" in text
    assert words(rendered(*mistake_blocks(Mistakes({}, ())))) == (
        "Every prediction on the dev set is right."
    )


def test_cells_of_a_card_stay_cells():
    text = render_card(
        "pretrain_card.md.j2", {"tags": ["a: b"], "nothing": None}, title="T",
        results=[("a|b\nc", "1", "2", "3")], splits=[], tokenizer={"kind": "bpe", "size": 1000},
        training="Done.", versions="V.", settings=[], usage="model.embed()",
    )  # fmt: skip
    assert text.startswith('---\ntags: ["a: b"]\n---\n\n# T\n\n## Results\n\n| held-out')
    assert "| a\\|b c | 1 | 2 | 3 |" in text and "1,000 entries" in text


def test_what_is_marked_is_escaped():
    found = marked("a <b> & c", [Mark(2, 5, "gold", "<i>")])
    assert html(found) == (
        'a <mark class="gold">&lt;b&gt;</mark><small class="gold">&lt;i&gt;</small> &amp; c'
    )


def test_long_texts_are_cut_around_the_marks_and_between_words():
    words = " ".join(f"w{number:04}" for number in range(1000))
    begin, far = words.index("w0400"), words.index("w0900")
    found = marked(words, [Mark(begin, begin + 5, "gold"), Mark(far, far + 5, "predicted")])
    drawn = html(found)
    assert drawn.startswith("…w03") and drawn.endswith("…")
    assert drawn.count("…") == 3  # before, between, behind
    assert '<mark class="gold">w0400</mark>' in drawn
    for first, last in kept(found):
        assert words[first - 1] == " " and words[last - 1] == " "
        assert last - first <= 2 * AROUND + 40


def test_a_mark_that_is_a_whole_book_is_cut_in_the_middle():
    text = "x" * 100_000
    found = marked(text, [Mark(1000, 99_000, "predicted")])
    assert sum(end - begin for begin, end in kept(found)) <= 4 * AROUND
    assert html(found).count('<mark class="predicted">') == 2


def test_a_text_without_marks_keeps_beginning_and_end():
    short = "a" * WITHOUT_MARKS
    assert html(marked(short)) == short
    text = "begin " + "middle " * 500 + "the end"
    drawn = html(marked(text))
    assert drawn.startswith("begin middle") and drawn.endswith("the end")
    assert drawn.count("…") == 1 and len(drawn) < WITHOUT_MARKS + 40


def test_a_mark_without_characters_is_none():
    assert marked("text", [Mark(2, 2, "gold")]).marks == ()
