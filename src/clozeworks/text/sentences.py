"""Cuts English and Chinese text into sentences.

The idea: one regular expression finds every mark that could end a sentence, together with the
closing quotes and brackets and the white space after it; what stands around the mark then decides.
A line is a paragraph, so its end always ends a sentence. English needs white space after the mark
and something that can begin a sentence; Chinese needs neither.

Where one cannot know, two sentences stay together rather than one being cut apart: a missed end
costs a model less than half a name does.

Used by: whatever arranges documents as sentences.
"""

import re
import unicodedata

# A text without any end, such as a list of numbers, is cut into pieces of this many characters.
LONGEST_SENTENCE = 10_000

_LATIN = ".!?‼⁇⁈⁉"
_WIDE = "。！？；｡"
_ELLIPSES = "…⋯"  # of both: it depends on what stands beside them
_NAME_DOT = "．"  # a full stop to some, to others the dot between the names of a person
_ENDS = _LATIN + _WIDE + _ELLIPSES + _NAME_DOT
_TITLES = ("《》", "〈〉")
_LISTS = (*_TITLES, "（）", "()")
_CLOSING = "\"'”’)]}»›」』）】》〉〕〗］｝"
_OPENING = "“‘([{«‹「『（【《〈〔〖［｛"
# What continues a sentence although it stands after the mark of an end.
_CONTINUES = frozenset(",;:，、：.!?…)]}%/&=<>|_^~*+-–—")
# Characters before a dot in which an abbreviation, with a bracket before it, must fit.
_REACH = 12
# Letters of a word that is longer than any abbreviation.
_LONG_WORD = 7
# Characters before a mark in which the partner of a bracket or of a straight quote is looked for.
_PARTNER = 500
_FIRST_WIDE = "\u2e80"  # from here on characters are ideographs, kana and their punctuation

# Trap: every part after the first character may be empty. If one had to match, a long run of dots
# would be tried again from each of its dots.
_CANDIDATES = re.compile(f"[{re.escape(_ENDS)}][{re.escape(_ENDS + _CLOSING)}]*+(\\s*+)")
_VISIBLE = re.compile(r"\S")
_WRAPPED = re.compile(r"(?<!\n)\n(?![^\S\n]*+\n)")
# Chinese and Japanese write no space between words; Korean does. U+3000 is a space itself.
_UNSPACED = (
    "\u2e80-\u2fff\u3001-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    "\U00020000-\U0003ffff"
)
_WRAPPED_UNSPACED = re.compile(
    f"\n(?:(?<=[{_UNSPACED}]\n)(?=[{_UNSPACED}“‘—…])|(?<=[”’—…]\n)(?=[{_UNSPACED}]))"
)
_BEHIND_OPENING = re.compile(f"[\"'{re.escape(_OPENING)}]++\\s?(\\S)")
_BEFORE_WORD = re.compile(f"[\"'{re.escape(_OPENING)}–—/⺀-\uffff-]")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # `U.S`, `Ph.D`, `p.m`
_ENUMERATOR = re.compile(r"\d{1,3}|[IVXLC]+")
_CODE = re.compile(r"[A-Z#]{0,3}\(?\d")
_NUMBER = re.compile(r"[A-Z]?\d|[IVXLC]+\b|[A-Z]\b")


def _forms(words: str) -> frozenset[str]:
    listed = words.split()
    return frozenset(listed) | {word[0].upper() + word[1:] for word in listed}


# Followed by what they belong to. `etc.` is in no list: a capital after it begins a sentence.
_NEVER_LAST = _forms(
    "Mr Mrs Ms Messrs Dr Drs Prof Profs Rev Hon Gen Brig Col Capt Cpt Lt Sgt Cpl Pvt Pfc Maj Cmdr "
    "Comdr Adm Sen Rep Gov Pres Supt Insp Cst Asst Fr Mme Mlle Mgr Msgr Mt Sta e.g i.e viz vs cf "
    "ca approx"
)
# Followed by a number, or else ordinary words: `No. 5`, but `No. He left.`
_NUMBERED = _forms(
    "no nos fig figs eq eqs sec secs ch chap vol vols art arts pp pg para pt ref refs app op ser "
    "Rs Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat "
    "Sun"
)
# Inside a sentence or at its end; the word that follows decides.
_UNSURE = _forms(
    "St Ste Ft Jr Sr Esq Inc Ltd Co Cos Corp Bros Assn Assoc dept div govt univ Ave Blvd Rd Hwy "
    "ed eds trans repr est fl ibid al cit dist bp avg sq mi ft lb lbs oz hr hrs mph yr yrs "
    "incl excl esp ext tel orig spp sp ssp subsp var cv nr Calif Conn Ala Ariz Colo Fla Ga Kan "
    "Ky Mich Minn Neb Nev Okla Ore Penn Tenn Tex Va Vt Wis Wyo Ont Que Pa Md"
)
_ABBREVIATIONS = _NEVER_LAST | _NUMBERED | _UNSURE
# Words that begin sentences and are not names, nor initials as `A` and `I` are.
_OPENERS = _forms(
    "The This That These Those There Then They Their It Its He She His Her We Our My In On At As "
    "After Although Though Also Among According And But Because Before Between Both By During "
    "Despite Each Every For From Following Given Here However If Instead Later Many Most Meanwhile "
    "Moreover Nevertheless Not Now Once One Other Others Over Several Since Some Such Thus Today "
    "Two Three Under Unlike Until Upon Using What When Where Whereas Which While Who Why With "
    "Within Without Additionally Afterwards Currently Eventually Finally Furthermore Hence "
    "Initially Originally Previously Recently Shortly Similarly Soon Subsequently Therefore "
    "Unfortunately"
)
_NEXT_WORD = re.compile(f"[\"'{re.escape(_OPENING)}]*+([A-Z][a-z]++)[\\s,'’]")


def split_sentences(text: str) -> list[str]:
    r"""Cuts a text into sentences.

    Nothing but white space is lost. The same text always gives the same sentences.

    Args:
        text: English, Chinese, or both. Each `\n` ends a paragraph and with it a sentence.

    Returns:
        The sentences without white space around them, none of them empty and none longer than
        `LONGEST_SENTENCE`.
    """
    sentences: list[str] = []
    for line in lines_as_sentences(text):
        length = len(line)
        ascii_only = line.isascii()
        begin = 0
        of_line: list[str] = []
        for match in _CANDIDATES.finditer(line):
            start, end = match.span()
            if end == length:
                break
            # Most of English, decided without a call: a word, a dot, a space, a capital.
            if (
                line[start:end] == ". "
                and line[end].isupper()
                and (
                    (start > _LONG_WORD and line[start - _LONG_WORD : start].isalpha())
                    or (ascii_only and _is_word(line[max(begin, start - _REACH) : start]))
                )
            ):
                stop = gap = start + 1
            else:
                gap = match.start(1)
                stop = _stop(line, begin, start, gap, end)
            if stop:
                of_line.append(line[begin:stop])
                begin = end if stop == gap else stop
        of_line.append(line[begin:])
        if length > LONGEST_SENTENCE:
            of_line = [piece for sentence in of_line for piece in _pieces(sentence)]
        sentences += of_line
    return sentences


def wrapped_sentences(text: str) -> list[str]:
    """Cuts text whose lines were wrapped at some column: only a blank line ends a paragraph."""
    if not text.isascii():
        text = _WRAPPED_UNSPACED.sub("", text)
    return split_sentences(_WRAPPED.sub(" ", text))


def lines_as_sentences(text: str) -> list[str]:
    r"""Takes each line as one sentence, for text that was cut into sentences before.

    Lines end in `\n`, `\r\n` or `\r` and lose the white space around them; blank ones go.
    """
    if "\r" in text:
        text = text.replace("\r", "\n")
    # Trap: splitlines also cuts at U+2028, U+0085 and form feeds, which occur inside sentences.
    return [line for line in map(str.strip, text.split("\n")) if line]


def whole_text(text: str) -> list[str]:
    """Takes a text as one sentence, its spaces and the ends of its lines as they are."""
    return [text] if text and not text.isspace() else []


def _is_word(before: str) -> bool:
    """Says whether a text ends in a word that is not an abbreviation, initial or number."""
    word = before.rpartition(" ")[2]
    return len(word) > 1 and word.isalpha() and not word.isupper() and word not in _ABBREVIATIONS


def _stop(line: str, begin: int, start: int, gap: int, end: int) -> int:
    """Where the sentence that begins at `begin` stops if a mark at `start` ends it, else 0.

    White space begins at `gap`, after the mark and what closes with it; the text goes on at `end`.
    """
    mark = line[start]
    if mark == ".":
        if gap == end:
            return 0
    elif start == begin or line[start - 1] in _OPENING:
        return 0  # `(?)` and `[…]` speak about the sentence they stand in
    elif _is_wide(line, start, gap, end):
        return _wide_stop(line, begin, start, gap, end)
    elif gap == end:
        return 0
    if not line[end].isupper() and not _can_begin(line, end):
        return 0
    if _is_open(line, max(begin, start - _PARTNER), start, "《》"):
        return 0  # `《Love Live! Sunshine》`
    if mark == ".":
        return gap if _is_full_stop(line, begin, start, gap, end) else 0
    return gap


def _can_begin(line: str, position: int) -> bool:
    """Says whether a sentence can begin here, where no capital letter stands."""
    first = line[position]
    if first in _OPENING or first in "\"'":
        match = _BEHIND_OPENING.match(line, position)
        if match is None:
            return False
        position = match.start(1)
        first = line[position]
    if first.islower():
        # `iPhone` and `eBay` begin sentences, other small letters do not.
        return line[position + 1 : position + 2].isupper()
    return first not in _CONTINUES


def _is_full_stop(line: str, begin: int, start: int, gap: int, end: int) -> bool:
    """Says whether a dot before white space is more than the dot of an abbreviation."""
    words = line[max(begin, start - _REACH) : start].rsplit(None, 1)
    if not words or line[start - 1] in _OPENING:
        return False
    word = words[-1]
    if not (word.isascii() and word.isalpha()):
        word = _BEFORE_WORD.split(word)[-1]  # of `(e.g`, `pre-U.S` and `称为Mrs` what is last
    if line[start + 1] == "." and line[start - 1] == " ":
        return _opens(line, end)  # words left out of a quotation
    initial = len(word) == 1 and (word.isupper() or word.islower())
    if not (initial or word in _ABBREVIATIONS or ("." in word and _DOTTED.fullmatch(word))):
        numbered = start - begin == len(word) and _ENUMERATOR.fullmatch(word)
        return not numbered  # `1. Introduction`
    if gap - start > 1 and line[gap - 1] in _LATIN:
        return True  # `Foo Inc..` and `(by Foo Inc.).`: the last dot belongs to no abbreviation
    if word in _NEVER_LAST:
        return False
    if word in _NUMBERED:
        return not (_CODE if word in ("no", "No") else _NUMBER).match(line, end)
    return _opens(line, end)


def _opens(line: str, position: int) -> bool:
    """Says whether the next word is one that begins sentences."""
    match = _NEXT_WORD.match(line, position)
    return match is not None and match[1] in _OPENERS


def _is_wide(line: str, start: int, gap: int, end: int) -> bool:
    """Says whether a mark follows the rules of Chinese."""
    mark = line[start]
    if mark in _LATIN:
        # `真的吗?当然。` but `Yahoo!奇摩`
        before = line[start - 1]
        return gap == end and before >= _FIRST_WIDE and before.isalnum()
    if mark in _ELLIPSES:
        return line[start - 1] >= _FIRST_WIDE or line[end] >= _FIRST_WIDE
    return True


def _wide_stop(line: str, begin: int, start: int, gap: int, end: int) -> int:
    """Does what `_stop` does, for a mark of Chinese."""
    mark, before, following = line[start], line[start - 1], line[end]
    if following in "，、：,:;" or (following == "等" and mark in _ELLIPSES):
        return 0
    if mark == _NAME_DOT:
        if before.isdigit() or before.isupper() or before.islower():
            return 0
        # Who writes it for a full stop also ends the line with it.
        if gap == end and gap - start == 1 and not line.endswith(_NAME_DOT):
            return 0
    near = max(begin, start - _PARTNER)
    # `！》。` is the end of more than the title.
    position = gap if line[gap - 1] in _ENDS else start
    if any(_is_open(line, near, position, pair) for pair in (_LISTS if mark == "；" else _TITLES)):
        return 0
    if line[gap - 1] in "）)" and mark in "？！?!":
        # A remark inside the sentence, unless it is all there is.
        return 0 if max(line.rfind(bracket, near, start) for bracket in "（(") > begin else gap
    if gap == end and line[gap - 1] == '"' and line.count('"', near, start) % 2 == 0:
        return gap - 1  # this quote opens the next sentence
    return gap


def _is_open(line: str, near: int, position: int, pair: str) -> bool:
    opening = line.rfind(pair[0], near, position)
    return opening >= 0 and line.find(pair[1], opening, position) < 0


def _pieces(sentence: str) -> list[str]:
    """Cuts a sentence that is too long, between words where there are any."""
    pieces = []
    begin, length = 0, len(sentence)
    while length - begin > LONGEST_SENTENCE:
        stop = begin + LONGEST_SENTENCE
        window = sentence[begin : stop + 1]
        head = window.rstrip() if window[-1].isspace() else window.rsplit(None, 1)[0]
        if len(head) <= LONGEST_SENTENCE:
            stop = begin + len(head)
        else:
            # A letter keeps its accents; that many of them are not a letter.
            for position in range(stop, stop - _REACH, -1):
                if not _joins(sentence[position]) and sentence[position - 1] != "\u200d":
                    stop = position
                    break
        pieces.append(sentence[begin:stop])
        visible = _VISIBLE.search(sentence, stop)
        assert visible is not None  # the sentence ends in a visible character
        begin = visible.start()
    pieces.append(sentence[begin:])
    return pieces


def _joins(character: str) -> bool:
    # Accents, variation selectors, joiners, and the second half of a surrogate pair.
    return unicodedata.category(character) in ("Mn", "Me", "Mc", "Cf") or (
        "\udc00" <= character <= "\udfff"
    )
