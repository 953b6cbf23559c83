"""Which encoding some bytes are written in, if what it makes of them looks like language.

The idea: in the right encoding a text is full of the commonest characters of its language: a tenth
of the letters of French have accents, four of ten Chinese characters are among a hundred. In a
wrong one it is full of rare characters, and damaged bytes are as good as random. Where nothing
looks like language there is no guess: to follow a wrong one reads nonsense without an error.
"""

import codecs
import re
from collections.abc import Callable

# Bytes before and after a wrong one that are looked at.
_BEFORE, _AFTER = 20_000, 40_000

_SIMPLIFIED = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过"
    "发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本"
    "前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很"
    "最重并物手应战向头文体政美相见被利什二等产或新己制身果加斯月话合回特代内信表化老给世位次度门"
)
_TRADITIONAL = (
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過"
    "發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本"
    "前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正業外將兩高間由問很"
    "最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加斯月話合回特代內信表化老給世位次度門"
)
_MARKS = "，。、：；！？（）「」『』“”《》〈〉…—　·"
_KOREAN = (
    "이다는을의가에고하지를한은로도서기나사어있리아그자시인대해스것수들보라정부주면여게과제일전만"
)
_RUSSIAN = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
_WESTERN = "éèêëàâäáãåæçíìîïñóòôöõøœßúùûüÿÉÈÀÇÄÖÜÅÆØÑÁÓÍÚÊÎÔ’‘“”„–—…•€£°§«»®©™·½¡¿"
_CENTRAL = "ąćęłńóśźżáčďéěíňřšťúůýžäöüőűôĺľăâîşţțșßŁŚŻŽŠČŘÁÉÍÓÚ„”“–—…«»€°§"
# The commonest of them in some language, and rarely an ASCII letter whose first bit was lost.
_ACCENTS = "éèàêáóíñüöäøæãçßœ’‘“”„–—…"
_KANA = re.compile("[ぁ-ゖァ-ヺー]")
_RARE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_LETTER = re.compile(r"[^\W\d_]")
_IN_A_ROW = re.compile(r"[^\x00-\x7f]{2,}")
# Latin letters beside those of another alphabet: no language writes words so.
_MIXED_WORD = re.compile("[A-Za-z][Ѐ-ӿ]|[Ѐ-ӿ][A-Za-z]")
_FEW = 4  # characters of which nothing can be said
# Letters for each one with an accent, at most, in languages that have them; and in others, where
# there must be some of them.
_OFTEN, _SELDOM, _SOME = 400, 4_000, 5


def likely_encoding(data: bytes, wrong: int, tried: str) -> str | None:
    """Guesses what text is that is not what it was read as.

    Args:
        data: Some of it.
        wrong: The index of a byte that is not valid in the encoding that was tried.
        tried: That encoding.

    Returns:
        The name of an encoding; None if no text in one looks like language.
    """
    begin = data.rfind(b"\n", 0, max(0, wrong - _BEFORE)) + 1
    sample = data[begin : wrong + _AFTER]
    if tried == "utf-8":
        characters = [each for each in sample.decode("utf-8", errors="replace") if each > "\x7f"]
        if 2 * characters.count("\ufffd") <= len(characters):
            return None  # most of it is UTF-8: it is damaged
        if len(data) - wrong in (2, 3) and _is_cut_off(data[wrong:]):
            return None
    else:
        try:
            sample.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return "utf-8"
    scores = {name: score(sample, name) for name, score in _CANDIDATES.items() if name != tried}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] > 0 else None


def _is_cut_off(data: bytes) -> bool:
    """Whether this is the beginning of a character in UTF-8."""
    try:
        return not codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False


def likely_utf16(data: bytes) -> str | None:
    """Which UTF-16 without a byte order mark data is that begins with a whole character."""
    sample = data[: _BEFORE + _AFTER]
    for name in ("utf-16-le", "utf-16-be"):
        text = sample[: len(sample) // 2 * 2].decode(name, errors="replace")
        if len(text) < _FEW or _RARE.search(text):
            continue
        usual = {*_SIMPLIFIED, *_TRADITIONAL, *_MARKS, *_KOREAN, *_RUSSIAN, *_WESTERN}
        known = sum(each < "\x7f" or each in usual or bool(_KANA.match(each)) for each in text)
        if known >= 0.4 * len(text):
            return name
    return None


def _decoded(sample: bytes, name: str) -> tuple[str, list[str]]:
    """The text, and its characters beyond ASCII; none if some of the text cannot be text."""
    text = sample.decode(name, errors="replace").removesuffix("\ufffd")
    beyond = [each for each in text if each > "\x7f"]
    return text, [] if len(_RARE.findall(text)) > 0.02 * len(beyond) else beyond


def _of(is_common: Callable[[str], object], least: float) -> Callable[[bytes, str], float]:
    """Scores an encoding by the characters that are common in its language, which has others."""

    def score(sample: bytes, name: str) -> float:
        text, beyond = _decoded(sample, name)
        if not beyond or sum(map(len, _IN_A_ROW.findall(text))) < 0.6 * len(beyond):
            return 0.0
        if len(_MIXED_WORD.findall(text)) > 0.1 * len(beyond):
            return 0.0
        fraction = sum(map(bool, map(is_common, beyond))) / len(beyond)
        return fraction if fraction >= least else 0.0

    return score


def _latin(common: str, typical: str, least: float = 0.5) -> Callable[[bytes, str], float]:
    """Scores an encoding of a language that is written with letters of ASCII and some beyond."""

    def score(sample: bytes, name: str) -> float:
        text, beyond = _decoded(sample, name)
        letters = len(_LETTER.findall(text))
        often = beyond and letters <= _OFTEN * len(beyond)
        if not often and (len(beyond) < _SOME or letters > _SELDOM * len(beyond)):
            return 0.0
        fraction = sum(each in common for each in beyond) / len(beyond)
        sure = sum(each in typical for each in beyond) >= least * len(beyond)
        # Other scripts need less to be sure.
        return 0.5 * fraction if sure and fraction >= (0.9 if often else 0.95) else 0.0

    return score


def _is_japanese(character: str) -> object:
    return _KANA.match(character) or character in _MARKS


_CYRILLIC = frozenset(_RUSSIAN + _RUSSIAN[:15].upper()).__contains__
_CANDIDATES: dict[str, Callable[[bytes, str], float]] = {
    "gb18030": _of(frozenset(_SIMPLIFIED + _MARKS).__contains__, 0.25),
    "big5": _of(frozenset(_TRADITIONAL + _MARKS).__contains__, 0.25),
    "shift_jis": _of(_is_japanese, 0.3),
    "euc_jp": _of(_is_japanese, 0.3),
    "cp949": _of(frozenset(_KOREAN).__contains__, 0.3),
    "cp1251": _of(_CYRILLIC, 0.85),
    "koi8-r": _of(_CYRILLIC, 0.85),
    "cp1252": _latin(_WESTERN, _ACCENTS),
    "cp1250": _latin(_CENTRAL, "ąćęłńśźżčďěňřšťůžőűăşţ", 0.3),
}
