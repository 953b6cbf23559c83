"""A tokenizer's fingerprint: it changes when texts become other ids.

It is taken from what the tokenizer *is* (its pieces, their ids, merges and scores) and from what it
*does* with a few telling texts, which brings in normaliser, splitting, template and added tokens.
The library's own JSON is not hashed, because its keys change from release to release while the ids
stay the same.
"""

import hashlib
import json
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from tokenizers import Tokenizer as Backend

# Case, accents (composed and not), ligatures, full-width forms, Chinese beside Latin, digits,
# punctuation, contractions, spaces of several kinds, line ends, control and invisible characters,
# emoji, right-to-left text, and mask tokens with and without a space before them.
TELLING = (
    "",
    " ",
    "Hello, World! It's 3.14 o'clock; don't we'll I'm",
    "naïve café Ünïcödé cafe\u0301 \ufb01ne ＦＵＬＬ ｗｉｄｔｈ",
    "北京是中国的首都，今天Temperature是25℃。「引用」ABC中文",
    "a\tb\nc\r\nd  e\u00a0f\u3000g\u200bh\u0000i\ufeffj\u00adk",
    "state-of-the-art e-mail@example.com http://a.b/c?d=e#f $5.00 (50%) [x] {y} <z>",
    "😀👩‍👩‍👧 ﷺ مرحبا שלום नमस्ते ไทย 한국어 ひらがな カタカナ",
    "The [MASK] is <mask> here.[MASK]<mask>[CLS][SEP]<s></s>[PAD]<pad><unk>[UNK]",
    " leading and trailing ",
    "antidisestablishmentarianism ÀÉÎÕÜ ßẞ İı ǅ Σς " + "a" * 101,
)


def fingerprint(backend: Backend, pieces: Mapping[str, int], state: Mapping[str, Any]) -> str:
    """Gives `sha256:` and 64 hexadecimal digits; `pieces` has the id of every token."""
    model = state["model"]
    settings = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
    singles = backend.encode_batch(list(TELLING))
    pairs = backend.encode_batch(list(zip(TELLING, reversed(TELLING), strict=True)))
    content = {
        "pieces": sorted(pieces.items(), key=itemgetter(1)),
        "merges": [m if isinstance(m, str) else " ".join(m) for m in model.get("merges") or []],
        "scores": [item[1] for item in model["vocab"] if isinstance(item, list)],
        "settings": sorted((key, value) for key, value in settings.items() if value),
        "texts": [(item.ids, item.type_ids) for item in (*singles, *pairs)],
    }
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
