"""Which tokens begin a word, in each kind of vocabulary, and what a segmenter adds."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.pre_tokenizers import ByteLevel

from clozeworks.errors import MissingExtra, UnknownName, UnsupportedError
from clozeworks.text.tokenizer.bytes import BYTES
from clozeworks.text.tokenizer.styles import ByteLevelStyle, UnigramStyle, WordPieceStyle
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.words import segmented_starts, segmenter, word_starts


def starting(tokenizer, pieces):
    """Those of the pieces that begin a word."""
    table = word_starts(tokenizer)
    return [piece for piece in pieces if table[tokenizer.id_of(piece)]]


def byte_pieces(*texts):
    """A byte-level tokenizer, and how it writes these texts or bytes as pieces."""
    written = {byte: character for character, byte in BYTES.items()}
    raw = [text.encode() if isinstance(text, str) else text for text in texts]
    pieces = ["".join(written[byte] for byte in data) for data in raw]
    listed = dict.fromkeys(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(BYTES), *pieces])
    vocabulary = {piece: index for index, piece in enumerate(listed)}
    return Tokenizer(ByteLevelStyle().build(vocabulary)), pieces


def chosen(*texts):
    tokenizer, pieces = byte_pieces(*texts)
    table = word_starts(tokenizer)
    return [
        text for text, piece in zip(texts, pieces, strict=True) if table[tokenizer.id_of(piece)]
    ]


class TestWordPiece:
    def test_what_continues_does_not_begin(self, bert):
        pieces = ["the", "un", "##happy", "##s", ".", "我", "h", "##a"]
        assert starting(bert, pieces) == ["the", "un", ".", "我", "h"]

    def test_special_tokens_begin(self, bert):
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        assert starting(bert, special) == special

    def test_one_truth_value_per_id(self, bert):
        table = word_starts(bert)
        assert table.dtype == np.bool_
        assert table.shape == (bert.size,)

    def test_the_prefix_is_the_vocabularys_own(self):
        vocabulary = {"[UNK]": 0, "a": 1, "@@b": 2, "##c": 3}
        tokenizer = Tokenizer(WordPieceStyle(prefix="@@").build(vocabulary))
        assert starting(tokenizer, ["a", "@@b", "##c"]) == ["a", "##c"]

    def test_without_a_prefix_every_piece_begins(self):
        tokenizer = Tokenizer(WordPieceStyle(prefix="").build({"[UNK]": 0, "a": 1, "##b": 2}))
        assert word_starts(tokenizer).all()

    def test_added_tokens_begin(self, bert):
        backend = Backend.from_str(bert._backend.to_str())
        backend.add_tokens([AddedToken("##added", single_word=True)])
        assert starting(Tokenizer(backend), ["##added", "##s"]) == ["##added"]

    def test_ids_without_a_token_begin(self):
        tokenizer = Tokenizer(WordPieceStyle().build({"[UNK]": 0, "##a": 3}))
        assert word_starts(tokenizer).tolist() == [True, True, True, False]


class TestByteLevel:
    def test_the_alphabet_is_the_librarys(self):
        assert set(BYTES) == set(ByteLevel.alphabet())
        for character, byte in BYTES.items():
            if byte < 0x80:  # the library itself writes whole characters only
                written = ByteLevel(add_prefix_space=False, use_regex=False)
                assert written.pre_tokenize_str(chr(byte))[0][0] == character

    def test_the_space_begins(self):
        assert chosen(" the", "the", " ", ",", " (", "\n", "ing") == [" the", " ", " ("]

    def test_east_asian_characters_begin(self):
        texts = ["中", "中国", "の", "カ", "한", "，", "。", "「", "！", "豈", "⺀", "𠀀"]
        assert chosen(*texts) == texts

    def test_other_characters_do_not(self):
        assert chosen("é", "я", "ا", "ह", "ไ", "“", "—", "…", "€", "😀", "\ufe0f", "ﷺ") == []

    def test_part_of_a_character(self):
        # The lead byte begins, what follows it does not.
        assert chosen(b"\xe4", b"\xe4\xb8", b"\xb8\xad", b"\xad", b"\xef\xbc", b"\xf0\x9f") == [
            *(b"\xe4", b"\xe4\xb8", b"\xef\xbc")
        ]

    def test_special_tokens_begin(self, roberta):
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        assert starting(roberta, special) == special

    def test_a_sentence(self, byte_level):
        table = word_starts(byte_level)
        ids = byte_level.encode(["the cat"], special=False)[0].ids
        words = [(byte_level.token_of(token_id), bool(table[token_id])) for token_id in ids]
        # The caller says that the first token begins a word.
        assert words == [("t", False), ("he", False), ("Ġcat", True)]


class TestMetaspace:
    @pytest.fixture
    def albert(self):
        pieces = [
            *(
                "<pad>",
                "<unk>",
                "[CLS]",
                "[SEP]",
                "[MASK]",
                "▁",
                "▁the",
                "ing",
                "'",
                "'s",
                ",",
                "...",
            ),
            *("3", "é", "né", "中", "中国", "—", "<s>", "A", "(", "a-b", "€"),
        ]
        return Tokenizer(UnigramStyle().build([(piece, -1.0) for piece in pieces]))

    def test_the_rule_of_albert(self, albert):
        inside = ["ing", "...", "A", "a-b"]
        begin = ["▁", "▁the", "'", "'s", ",", "3", "é", "né", "中", "中国", "—", "<s>", "(", "€"]
        assert starting(albert, [*inside, *begin]) == begin

    def test_special_tokens_begin(self, albert):
        special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
        assert starting(albert, special) == special

    def test_byte_pairs_with_metaspace_and_single_bytes(self):
        pieces = ["<unk>", "▁", "▁the", "ing", "<0xE4>", "<0xB8>", "<0x41>"]
        backend = Backend(
            models.BPE({piece: index for index, piece in enumerate(pieces)}, [], unk_token="<unk>")
        )
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer = Tokenizer(backend)
        assert starting(tokenizer, pieces[1:]) == ["▁", "▁the", "<0xE4>", "<0x41>"]


class TestOthers:
    def test_whole_words(self):
        backend = Backend(models.WordLevel({"a": 0, "##b": 1, "[UNK]": 2}, unk_token="[UNK]"))
        assert word_starts(Tokenizer(backend)).all()

    def test_marked_ends(self):
        backend = Backend(models.BPE({"a": 0, "b</w>": 1}, [], end_of_word_suffix="</w>"))
        backend.decoder = decoders.BPEDecoder()
        with pytest.raises(UnsupportedError) as caught:
            word_starts(Tokenizer(backend))
        assert str(caught.value) == (
            "the vocabulary marks where words end ('</w>'); to hide whole words, its pieces must "
            "show where words begin; use a WordPiece, byte-level BPE or unigram tokenizer, or hide "
            "single tokens."
        )

    def test_no_marks(self):
        backend = Backend(models.BPE({"a": 0, "b": 1}, []))
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s"), "isolated")
        with pytest.raises(UnsupportedError, match=r"^the vocabulary marks no words; "):
            word_starts(Tokenizer(backend))


class Fixed:
    """Cuts a sentence at bars, for tests; the sentence is given without them."""

    def __init__(self, marked):
        self.cut = marked.split("|")

    def words(self, sentence):
        return self.cut


def starts(marked, offsets):
    return segmented_starts(Fixed(marked), marked.replace("|", ""), offsets).tolist()


class TestSegmented:
    def test_tokens_inside_a_word_do_not_begin(self):
        offsets = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
        assert starts("北京|是|首都", offsets) == [True, False, True, True, False]

    def test_a_token_over_an_edge_counts_by_its_first_character(self):
        assert starts("北京|是|首都", [(0, 1), (1, 3), (3, 5)]) == [True, False, True]

    def test_parts_of_a_character_begin_once(self):
        offsets = [(0, 1), (0, 1), (1, 2), (1, 2), (2, 3), (2, 3)]
        assert starts("北京|是", offsets) == [True, False, False, False, True, False]

    def test_tokens_without_characters_begin(self):
        offsets = [(0, 0), (0, 1), (1, 2), (0, 0), (2, 3)]
        assert starts("北京|是", offsets) == [True, True, False, True, True]

    def test_no_tokens(self):
        assert starts("", []) == []
        assert starts("北京", []) == []


class TestJieba:
    def test_words_of_chinese(self):
        sentence = "小明硕士毕业于中国科学院 with BERT。"
        words = segmenter("jieba").words(sentence)
        assert "".join(words) == sentence
        assert words[:5] == ["小明", "硕士", "毕业", "于", "中国科学院"]
        assert words[-4:] == ["with", " ", "BERT", "。"]

    @pytest.mark.parametrize(
        "sentence",
        ["", " ", "\u3000 \t", "a\u2028b", "😀中\u0301国", "100%的GPT-2，v1.0&c_d", "𠀀𠀁"],
    )
    def test_every_character_is_kept(self, sentence):
        assert "".join(segmenter("jieba").words(sentence)) == sentence

    def test_whole_words_of_a_tokenizer(self, bert):
        sentence = "我爱北京!"
        encoded = bert.encode([sentence], special=False, offsets=True)[0]
        found = segmented_starts(segmenter("jieba"), sentence, encoded.offsets)
        assert found.tolist() == [True, True, True, False, True]

    def test_it_travels_to_other_processes(self):
        assert pickle.loads(pickle.dumps(segmenter("jieba"))).words("北京") == ["北京"]

    def test_it_says_and_leaves_nothing(self, tmp_path):
        code = (
            "from clozeworks.text.words import segmenter\n"
            "assert segmenter('jieba').words('我爱北京') == ['我', '爱', '北京']"
        )
        done = subprocess.run(
            [sys.executable, "-W", "default", "-c", code],
            capture_output=True,
            text=True,
            env={"TMPDIR": str(tmp_path)},
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert list(tmp_path.iterdir()) == []

    def test_its_library_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jieba", None)
        with pytest.raises(MissingExtra) as caught:
            segmenter("jieba")
        assert str(caught.value) == (
            "Segmenting Chinese needs the library 'jieba', which is not installed; "
            "install it with: pip install 'clozeworks[chinese]'."
        )

    def test_another_name(self):
        with pytest.raises(UnknownName) as caught:
            segmenter("jiebba")
        assert str(caught.value) == ("segmenter is 'jiebba'; known: jieba. Did you mean 'jieba'?")
