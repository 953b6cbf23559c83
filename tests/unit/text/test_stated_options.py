"""Every step of `tokenizer.json` is kept; a config changes only the options that it states."""

import json

import pytest
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from clozeworks.text.fast.plain import PlainText
from clozeworks.text.tokenizer.styles import ByteLevelStyle, WordPieceStyle
from clozeworks.text.tokenizer.tokenizer import Tokenizer

TEXTS = [
    "In 2024 we paid $1,234.50 for 16GB.",
    "北京2008年奥运会，共302个项目。",
    "👩‍👩‍👧 said: “naïve café” 3️⃣!",
    "def f(x1):\n\treturn x1 ** 2  # 10e-5\r\n",
    "  leading, trailing and  double  ",
    "ＦＵＬＬ ｗｉｄｔｈ ÀÉÎ ßẞ İı",
    "",
]
NUMBERS = Regex(r"\p{N}{1,3}|[^\s\p{L}\p{N}]+|\s*[\r\n]+")
SPLIT = pre_tokenizers.Split(NUMBERS, "isolated")
DIGITS = pre_tokenizers.Digits(individual_digits=True)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
CUTS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


BYTE_STEPS = {
    "bytes": BYTES,
    "digits and bytes": sequence(DIGITS, BYTES),  # SmolLM2, StarCoder
    "split and bytes": sequence(SPLIT, CUTS),  # LLaMA 3, Qwen
    "punctuation, bytes, digits, split": sequence(
        pre_tokenizers.Punctuation("contiguous"), BYTES, DIGITS, SPLIT
    ),  # Falcon
    "nested": sequence(sequence(DIGITS), sequence(sequence(SPLIT, BYTES))),
    "bytes without cuts": CUTS,
    "spaced": pre_tokenizers.ByteLevel(add_prefix_space=True),
    "digits and spaced": sequence(DIGITS, pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "metaspace": pre_tokenizers.Metaspace(prepend_scheme="first"),
    "whitespace and digits": sequence(pre_tokenizers.WhitespaceSplit(), DIGITS),
}
BERT = normalizers.BertNormalizer
WORD_STEPS = {
    "bert": BERT(lowercase=False),
    "bert that cleans nothing": BERT(clean_text=False, lowercase=False, strip_accents=True),
    "bert and others": normalizers.Sequence(
        [normalizers.NFKC(), BERT(lowercase=False), normalizers.Replace("the", "a")]
    ),
    "nested": normalizers.Sequence(
        [normalizers.Sequence([normalizers.NFC(), BERT(handle_chinese_chars=False)])]
    ),
    "no bert": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "none": None,
}
PROCESSORS = {
    "none": lambda ids: None,
    "bytes": lambda ids: processors.ByteLevel(trim_offsets=False, add_prefix_space=True),
    "roberta": lambda ids: processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"])),
    "sequence": lambda ids: processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", ids["<s>"])]),
        ]
    ),
}


def byte_folder(folder, step, processor="none", normalizer=None, **config):
    """A folder whose model joins some bytes, digits and spaces, so that cuts show."""
    alphabet = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "▁"]
    merges = [("1", "2"), ("2", "0"), ("20", "2"), ("Ġ", "2"), ("Ġ2", "0"), ("c", "a"), ("Ġ", "Ġ")]
    pieces = [*alphabet, *dict.fromkeys(map("".join, merges))]
    ids = {piece: number for number, piece in enumerate(pieces)}
    backend = Backend(models.BPE(ids, merges))
    backend.pre_tokenizer = step
    backend.decoder = decoders.ByteLevel()
    if normalizer is not None:
        backend.normalizer = normalizer
    made = PROCESSORS[processor](ids)
    if made is not None:
        backend.post_processor = made
    return written(folder, backend, config)


def word_folder(folder, normalizer, splitter=None, **config):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "naive", "café", "cafe", "the", "The"]
    pieces += [*"北京年奥运会，。0123456789$,.!abcdefghijklmnopqrstuvwxyzABIGEN"]
    pieces += [f"##{sign}" for sign in "0123456789abcdefghijklmnopqrstuvwxyz"]
    ids = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    backend = Backend(models.WordPiece(ids, unk_token="[UNK]"))
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = splitter or pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return written(folder, backend, config)


def written(folder, backend, config):
    folder.mkdir(exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def check(folder, peer=None, style=None):
    """The same tokens as the library gives, now and after saving."""
    peer = peer or Backend.from_file(str(folder / "tokenizer.json"))
    loaded = Tokenizer.load(folder, style)
    loaded.save(folder / "again")
    again = Tokenizer.load(folder / "again", style)
    for tokenizer in (loaded, again):
        for text in TEXTS:
            found = tokenizer.encode([text], offsets=True)[0]
            expected = peer.encode(text)
            assert (found.ids, found.offsets) == (expected.ids, expected.offsets), text
            for ids, _ in PlainText(tokenizer).ids_and_offsets([text]):
                assert ids == peer.encode(text, add_special_tokens=False).ids
            plain, _ = PlainText(tokenizer).encode([text])
            assert plain.tolist() == peer.encode(text, add_special_tokens=False).ids
    state = json.loads(peer.to_str())
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        assert again.state[part] == state[part]
    return again


@pytest.mark.parametrize(
    "named", ["GPT2Tokenizer", "GPT2TokenizerFast", "RobertaTokenizer", "BartTokenizer", None]
)
@pytest.mark.parametrize("step", BYTE_STEPS)
def test_a_class_that_is_named_changes_no_step(step, named, tmp_path):
    config = {} if named is None else {"tokenizer_class": named}
    check(byte_folder(tmp_path / "a", BYTE_STEPS[step], **config))
    check(byte_folder(tmp_path / "a", BYTE_STEPS[step], **config), style=ByteLevelStyle())


@pytest.mark.parametrize("step", BYTE_STEPS)
def test_what_is_stated_and_true_already_changes_nothing(step, tmp_path):
    folder = byte_folder(
        tmp_path / "a",
        BYTE_STEPS[step],
        normalizer=normalizers.NFC(),
        tokenizer_class="GPT2Tokenizer",
        add_prefix_space="spaced" in step,
    )
    check(folder)


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("step", BYTE_STEPS)
def test_a_space_that_is_stated_is_changed_in_its_step(step, processor, stated, tmp_path):
    folder = byte_folder(
        tmp_path / "a",
        BYTE_STEPS[step],
        processor,
        tokenizer_class="RobertaTokenizer",
        add_prefix_space=stated,
    )
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    after = json.loads(text)
    for one in flat(after["pre_tokenizer"]) + flat(after["post_processor"]):
        if one.get("type") in ("ByteLevel", "RobertaProcessing"):
            one["add_prefix_space"] = stated
    check(folder, Backend.from_str(json.dumps(after)))


@pytest.mark.parametrize("stated", [True, False])
def test_trimmed_offsets_may_be_stated(stated, tmp_path):
    folder = byte_folder(
        tmp_path / "a", BYTES, "sequence", tokenizer_class="GPT2Tokenizer", trim_offsets=stated
    )
    loaded = check(
        folder,
        Backend.from_str(
            (folder / "tokenizer.json")
            .read_text(encoding="utf-8")
            .replace('"trim_offsets": false', f'"trim_offsets": {str(stated).lower()}')
        ),
    )
    offsets = loaded.encode(["a 2"], offsets=True)[0].offsets
    assert offsets == [(0, 0), (0, 1), (2, 3) if stated else (1, 3)]


@pytest.mark.parametrize("splitter", [None, sequence(pre_tokenizers.BertPreTokenizer(), DIGITS)])
@pytest.mark.parametrize("normalizer", WORD_STEPS)
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"do_lower_case": True},
        {"do_lower_case": False, "strip_accents": True},
        {"strip_accents": False, "tokenize_chinese_chars": False},
        {"do_lower_case": None, "strip_accents": None, "tokenize_chinese_chars": None},
    ],
)
def test_options_of_words_are_changed_in_their_step(normalizer, config, splitter, tmp_path):
    folder = word_folder(
        tmp_path / "a",
        WORD_STEPS[normalizer],
        splitter,
        tokenizer_class="BertTokenizer",
        **config,
    )
    state = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    for one in flat(state["normalizer"]):
        if one["type"] == "BertNormalizer":
            one.update({names[k]: value for k, value in config.items() if value is not None})
    check(folder, Backend.from_str(json.dumps(state)))
    check(folder, Backend.from_str(json.dumps(state)), style=WordPieceStyle())


def flat(step):
    """The steps of a part, in any order."""
    if step is None:
        return []
    inner = [one for value in step.values() if isinstance(value, list) for one in value]
    return [step, *(each for one in inner if isinstance(one, dict) for each in flat(one))]


def test_digits_stay_apart(tmp_path):
    """SmolLM2's config names GPT-2's class, its file cuts digits one by one."""
    folder = byte_folder(
        tmp_path / "a",
        sequence(DIGITS, BYTES),
        tokenizer_class="GPT2Tokenizer",
        add_prefix_space=False,
    )
    loaded = Tokenizer.load(folder)
    assert [loaded.token_of(token) for token in loaded.encode(["2024"])[0].ids] == [*"2024"]
    loaded.save(tmp_path / "saved")
    # Under that name transformers would lose the step.
    saved = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    assert saved["tokenizer_class"] == "PreTrainedTokenizerFast"
    again = Tokenizer.load(tmp_path / "saved")
    assert [again.token_of(token) for token in again.encode(["2024"])[0].ids] == [*"2024"]
