"""Sentences of English and Chinese: where they end, where they do not, and that nothing is lost."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clozeworks.text.sentences import (
    LONGEST_SENTENCE,
    lines_as_sentences,
    split_sentences,
    wrapped_sentences,
)


def whole(*texts):
    return pytest.mark.parametrize("text", texts)


def parted(*sentences):
    """Each case is written with `|` where one sentence ends and the next begins."""
    return pytest.mark.parametrize("marked", sentences)


def check(marked):
    expected = [sentence.strip() for sentence in marked.split("|")]
    assert split_sentences(marked.replace("|", "")) == expected


class TestEnglish:
    @parted(
        "The cat sat. |It slept.",
        "Really? |Yes! |Good.",
        "Stop!!! |Why?! |Because.",
        'He said "Go." |Then he left.',
        "He said “Go.” |Then he left.",
        "He read the “Iliad”. |Then he left.",
        "(It was late.) |They went home.",
        'She asked "Why?" |"Because," he said.',
        "It cost 5. |Then 6.",
        "It was 1999. |2,000 people came.",
        "The end. |(And a beginning.)",
        "It failed. |“Try again,” she said.",
        "It failed. |iPhones were new.",
        "Tokenized text too . |The dot stands alone .",
        "One.\t|Two.\u00a0|Three.\u3000|Four.",
        "Élan vital. |Über alles. |Ось так. |Да.",
        "Well... |That was it.",
        "Well… |That was it.",
        "What⁉ |Yes.",
    )
    def test_ends(self, marked):
        check(marked)

    @whole(
        "Mr. Smith met Mrs. Jones and Dr. No at St. Mary with Prof. Plum.",
        "Brig. Gen. Lee and Lt. Col. Ray saw Sgt. Pepper.",
        "Fruit, e.g. Apples or i.e. Pears, cf. Plums vs. Grapes.",
        "See Fig. 3, No. 5, Vol. II, pp. 3 and Sec. A of op. 12.",
        "In Jan. 1999 and on Dec. 24 it rained.",
        "J. R. R. Tolkien wrote with C. S. Lewis.",
        "J.R.R. Tolkien met H.G. Wells.",
        "The U.S. Army and the U.K. Parliament met at 5 p.m. Monday.",
        "Foo Inc. (formerly Bar) and Baz Co. Ltd. Limited agreed.",
        "Martin Luther King Jr. Day is in January.",
        "Her Ph.D. Thesis was long.",
        "He paid Rs. 500 for No. R(89)12.",
        "The value is 3.14 or v2.0.1 or 1.000.000.",
        "See www.example.com/a.html?b=C and node.js today.",
        "wait... what",
        "wait… what",
        "wait! what? yes",
        "“Really?” he asked.",
        "Bands, e.g. The Beatles, and authors, i.e. The two of them, came.",
        "It was Prof. This who met Gen. After, cf. The Times.",
        "1. Introduction",
        "12. The beginning",
        "IV. The end",
        "He [...] Smith (?) Jones (!) left.",
        "Apples, pears, etc. are fruit.",
        "Yahoo! and Jeopardy! are names.",
        "He was born c. 1850 (d. 1900) in Rome, fl. 1880.",
        "the pre-U.S. Navy",
        "No end here",
        "left ... Smith came",
        "end. , then",
        "Smith et al. (1993) found it.",
        'a quote stands alone. "',
    )
    def test_goes_on(self, text):
        assert split_sentences(text) == [text]

    @parted(
        "He lives in the U.S. |The house is old.",
        "They met at 5 p.m. |However, nobody came.",
        "It was made by Foo Inc. |It broke.",
        "It was made by Foo Inc.. |Bar broke it.",
        "It broke (made by Foo Inc.). |Bar repaired it.",
        "Apples, pears, etc. |Grapes too.",
        "It was Plan B. |The first one failed.",
        "He fell in World War I. |His son did not.",
        "She said no. |He left.",
        "Who is it? No. |Nobody came.",
        "She bought a fig. |Then she left.",
        "He lived on Main St. |They did too.",
        "He is Roger Jr. |“The Younger” they say.",
    )
    def test_an_abbreviation_may_end_a_sentence(self, marked):
        check(marked.replace("it? No", "it? |No"))


class TestChinese:
    @parted(
        "今天下雨。|明天晴。",
        "真的吗？|当然！|好。",
        "他来了；|她走了。",
        "什么！？|不知道。。。|算了……|走吧。",
        "算了⋯⋯|走吧…|好。",
        "他说：“你好。”|然后走了。",
        "他說：「你好！」|然後走了。",
        "（他来了。）|她走了。",
        "【注意！】|不要动。",
        "『好。』」|他说。",
        "他看了《你好！》。|很好。",
        "半角｡|也行｡",
        "这是一句．|那是一句．",
        "没有了．．．|真的。",
        "没有空格. |也有空格. |好",
        "真的吗?|当然!|好。",
        "他来了。 |她走了。\u3000|好。",
        '他来了。|"你好。"|他说。',
        "（真的吗？）|他问。",
        "你好。|The cat sat. |它睡了。|Good.",
        "Yes。|No！|OK",
        "五十五级。|地震后。",
    )
    def test_ends(self, marked):
        check(marked)

    @whole(
        "“你好！”，他说。",
        "「好？」、「不好！」、「也許」都行。",
        "《你好！》是電影，《你好。再見！》也是，《Love Live! 學園》也是。",
        "苹果、梨……等水果。",
        "约翰．史密斯来了。",
        "长约3．5公里，Ｊ．Ｋ．罗琳。",
        "圆周率是3.14，版本是2.0。",
        "Yahoo!奇摩與AKB48 SHOW!節目。",
        "上海（，；）和北京（甲；乙）在这里。",
        "他说“……你好”和[…]再见。",
        "李麟（1458年－？），字仁仲，（1577年—1640年？）是武將。",
        "称为Mrs. 王。",
    )
    def test_goes_on(self, text):
        assert split_sentences(text) == [text]


class TestLines:
    def test_a_line_ends_a_sentence(self):
        assert split_sentences("A title\nThe text\r\ngoes on\rhere") == [
            *("A title", "The text", "goes on", "here")
        ]

    def test_blank_lines_give_nothing(self):
        assert split_sentences("\n \n\u3000\n\ta\n\n") == ["a"]
        assert split_sentences("") == []

    def test_line_separators_inside_a_text_are_white_space(self):
        assert split_sentences("a\u2028b\x0cc\x85d") == ["a\u2028b\x0cc\x85d"]

    def test_a_sentence_per_line_as_given(self):
        assert lines_as_sentences(" One. Two.\r\n\n 三。四。\r五\u2028六 ") == [
            *("One. Two.", "三。四。", "五\u2028六")
        ]


class TestLong:
    def test_cut_at_the_last_white_space(self):
        sentences = split_sentences("word " * 5_000)
        assert [len(sentence) for sentence in sentences] == [9_999, 9_999, 4_999]
        assert all(set(sentence.split()) == {"word"} for sentence in sentences)

    def test_white_space_right_behind_the_limit_is_used(self):
        text = "a" * LONGEST_SENTENCE
        assert split_sentences(f"{text} b") == [text, "b"]

    def test_cut_hard_where_there_is_no_white_space(self):
        sentences = split_sentences("字" * 25_000)
        assert [len(sentence) for sentence in sentences] == [10_000, 10_000, 5_000]

    def test_the_limit_itself_is_not_too_long(self):
        assert split_sentences("字" * LONGEST_SENTENCE) == ["字" * LONGEST_SENTENCE]

    @pytest.mark.parametrize(
        "cluster", ["e\u0301\u0302", "👩\u200d🚀", "❤\ufe0f", "\ud83d\ude00", "क\u094d\u0937\u093f"]
    )
    @pytest.mark.parametrize("shift", range(4))
    def test_never_inside_a_character_with_accents(self, cluster, shift):
        text = "x" * shift + cluster * LONGEST_SENTENCE
        for sentence in split_sentences(text)[1:]:
            first = sentence[0]
            assert unicodedata.category(first) not in ("Mn", "Mc", "Cf")
            assert not "\udc00" <= first <= "\udfff"
            assert first != "🚀"

    def test_a_long_gap(self):
        assert split_sentences("a" + " " * 50_000 + "b") == ["a", "b"]


class TestAnything:
    marks = ".!?…。！？；｡．⋯\"'”’)]」』）》】“‘(「（《 \n\r\t\u3000,，、:aAbB1一地的等"

    @given(st.text(alphabet=st.sampled_from(marks), max_size=60) | st.text(max_size=60))
    @example(". . . .")
    @example('。"')
    @example("．")
    @example("Mr. A")
    @example("A.")
    def test_nothing_but_white_space_is_lost(self, text):
        sentences = split_sentences(text)
        assert "".join("".join(sentences).split()) == "".join(text.split())
        for sentence in sentences:
            assert sentence and sentence == sentence.strip()
            assert "\n" not in sentence and "\r" not in sentence

    @given(st.text(alphabet=st.sampled_from(marks), max_size=60))
    def test_the_same_text_gives_the_same_sentences(self, text):
        assert split_sentences(text) == split_sentences(text)

    @given(st.lists(st.text(alphabet=st.sampled_from(marks.replace("\n", "")), max_size=30)))
    def test_paragraphs_do_not_depend_on_each_other(self, lines):
        together = split_sentences("\n".join(lines))
        assert together == [sentence for line in lines for sentence in split_sentences(line)]

    # A search that begins again at each mark would need hours for these.
    @pytest.mark.parametrize(
        ("unit", "length", "sentences"),
        [
            *((".", 5_000_000, 500), ("a", 5_000_000, 500), ("a. ", 5_000_000, 501)),
            *((". ", 1_000_000, 100), ("。", 1_000_000, 100), (".)", 1_000_000, 100)),
            *(("a…", 500_000, 50), ("《。", 500_000, 50), ('。"，', 500_000, 50)),
            *(("；（", 500_000, 50), ('. "', 500_000, 51), ("\n", 5_000_000, 0)),
        ],
    )
    def test_time_grows_with_the_length_only(self, unit, length, sentences):
        assert len(split_sentences(unit * (length // len(unit)))) == sentences


def test_wrapped_lines_are_joined_within_a_paragraph():
    text = "The cat sat on\nthe mat. It\nslept.\n\nThe dog\nran.\n \nEnd"
    assert wrapped_sentences(text) == [
        "The cat sat on the mat.",
        "It slept.",
        "The dog ran.",
        "End",
    ]
    assert split_sentences(text)[0] == "The cat sat on"


def test_many_blank_lines_take_no_longer_than_others():
    text = "a\n" + " \n" * 300_000 + "b"
    assert wrapped_sentences(text) == ["a", "b"]
