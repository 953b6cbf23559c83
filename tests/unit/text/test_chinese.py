"""Chinese as it is written: both scripts, their quotes, and Latin letters and signs in between."""

from io import BytesIO

import numpy as np
import pytest

from clozeworks.data.files.lines import read_text
from clozeworks.errors import InputError
from clozeworks.text.characters import is_chinese, words_of
from clozeworks.text.sentences import split_sentences, wrapped_sentences
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator
from clozeworks.text.words import segmented_starts, segmenter, word_starts

# The same in both scripts; `|` stands between sentences.
PAIRS = [
    ("他说：“我爱学习。”|老师问：“真的吗？”|“真的！”|大家都笑了。",
     "他說：「我愛學習。」|老師問：「真的嗎？」|「真的！」|大家都笑了。"),
    ("书上写着：“他问：‘你来吗？’”|没有人回答。", "書上寫著：「他問：『你來嗎？』」|沒有人回答。"),
    ("“你好！”，她说。|（门开了。）|风很大……|她走了。",
     "「你好！」，她說。|（門開了。）|風很大……|她走了。"),
    ("他读了《你好，世界！》和BERT的论文。|v2.0很好🙂！|真的。",
     "他讀了《你好，世界！》和BERT的論文。|v2.0很好🙂！|真的。"),
]  # fmt: skip
SCRIPTS = {
    "simplified": [pair[0] for pair in PAIRS],
    "traditional": [pair[1] for pair in PAIRS],
}
EVERY = [marked for texts in SCRIPTS.values() for marked in texts]
PLAIN = [marked.replace("|", "") for marked in EVERY]


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    texts = PLAIN * 3
    return {
        kind: train_from_iterator(texts, kind=kind, size=500)
        for kind in ("wordpiece", "bpe", "unigram")
    }


@pytest.mark.parametrize("marked", EVERY)
def test_sentences_of_both_scripts(marked):
    assert split_sentences(marked.replace("|", "")) == marked.split("|")


def test_both_scripts_are_cut_alike():
    for simplified, traditional in PAIRS:
        first, second = (
            [len(each) for each in split_sentences(text.replace("|", ""))]
            for text in (simplified, traditional)
        )
        assert first == second


@pytest.mark.parametrize(
    ("lines", "sentences"),
    [
        ("我爱\n学习，\n你呢？\n他也爱。", ["我爱学习，你呢？", "他也爱。"]),
        ("我愛\n學習。\n\n他也\n愛。", ["我愛學習。", "他也愛。"]),
        ("他说：\n“我爱\n学习”\n，真的。", ["他说：“我爱学习”，真的。"]),
        ("我爱。\n\u3000\n\u3000\u3000你也爱。", ["我爱。", "你也爱。"]),
        ("我用\nBERT\n读书。", ["我用 BERT 读书。"]),
        ("공부를\n좋아한다.", ["공부를 좋아한다."]),
        ("He said “no”\n“yes” and\nleft.", ["He said “no” “yes” and left."]),
    ],
)
def test_wrapped_lines_are_joined_as_the_script_writes_them(lines, sentences):
    assert wrapped_sentences(lines) == sentences


@pytest.mark.parametrize("text", PLAIN)
def test_wordpiece_takes_each_character_for_a_token(tokenizers, text):
    tokenizer = tokenizers["wordpiece"]
    item = tokenizer.encode([text], special=False, offsets=True)[0]
    assert tokenizer.unknown_id not in item.ids
    for token_id, (begin, end) in zip(item.ids, item.offsets, strict=True):
        covered = text[begin:end]
        assert len(covered) == 1 or covered.isascii()
        assert tokenizer.token_of(token_id).removeprefix("##") == covered.lower()
    assert not any(
        piece.startswith("##") and is_chinese(piece[2:]) for piece in tokenizer.vocabulary()
    )


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_offsets_slice_back_in_every_kind_of_vocabulary(tokenizers, kind):
    tokenizer = tokenizers[kind]
    for text, item in zip(PLAIN, tokenizer.encode(PLAIN, special=False, offsets=True), strict=True):
        covered = np.zeros(len(text), bool)
        for begin, end in item.offsets:
            covered[begin:end] = True
        assert covered.all()


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_a_character_begins_a_word_where_nobody_segments(tokenizers, kind):
    tokenizer = tokenizers[kind]
    table = word_starts(tokenizer)
    text = "我爱学习"
    item = tokenizer.encode([text], special=False, offsets=True)[0]
    begins = {
        begin for token, (begin, _) in zip(item.ids, item.offsets, strict=True) if table[token]
    }
    assert begins >= {begin for begin, _ in item.offsets}


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("他们在图书馆学习。", ["他们", "在", "图书馆", "学习", "。"]),
        ("他們在圖書館學習。", None),  # its dictionary is of simplified words; some it still knows
    ],
)
def test_segmented_words_are_made_of_whole_tokens(tokenizers, sentence, words):
    pytest.importorskip("jieba")
    jieba = segmenter("jieba")
    found = jieba.words(sentence)
    assert "".join(found) == sentence and len(found) < len(sentence)
    assert words is None or found == words
    tokenizer = train_from_iterator([sentence] * 3, kind="wordpiece", size=100)
    item = tokenizer.encode([sentence], special=False, offsets=True)[0]
    starts = segmented_starts(jieba, sentence, item.offsets)
    assert starts.sum() == len(found) and starts[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("「真好」，她說！", "「|真|好|」|，|她|說|！"),
        ("用BERT-base读3.5万字🙂。", "用|BERT-base|读|3.5|万|字|🙂|。"),
        ("２０２４年，Ａ组：１００％", "２０２４|年|，|Ａ|组|：|１００|％"),
        ("𠀀𠀁——〇…", "𠀀|𠀁|—|—|〇|…"),
        ("\u3000小明 👩\u200d👧 来了", "小|明|👩\u200d👧|来|了"),
    ],
)
def test_words_of_mixed_text(text, words):
    assert [text[begin:end] for begin, end in words_of(text)] == words.split("|")


@pytest.mark.parametrize(
    ("text", "encoding", "guess"),
    [
        (f"text,label\n{PLAIN[0]},好评\n", "gb18030", "gb18030"),
        ("内容\n房间很好\n", "gbk", "gb18030"),
        (f"text,label\n{PLAIN[4]},好\n", "big5", "big5"),
        ("grüne Äpfel, süße Öfen, café\n", "latin-1", "cp1252"),
        ("“naïve” – he said\n", "cp1252", "cp1252"),
        ("Зелёный чай и варенье\n", "cp1251", "cp1251"),
    ],
)
def test_a_file_in_another_encoding_is_guessed(text, encoding, guess):
    with pytest.raises(InputError) as caught:
        read_text(BytesIO(text.encode(encoding)), origin="a.csv")
    assert str(caught.value).endswith(f"or say what it is with --encoding {guess}.")


def test_capitals_with_accents_are_not_taken_for_another_script():
    with pytest.raises(InputError) as caught:
        read_text(BytesIO("ÄÖÜ und ÄRGER\n".encode("latin-1")), origin="a.csv")
    assert "koi8" not in str(caught.value)
