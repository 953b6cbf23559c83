"""ByT5's tokens: the bytes of a text, and nothing to learn.

Paper: Xue et al. 2022.
The idea: a token is a byte, its id the byte + 3 after padding, end and unknown; so there is no
vocabulary file, and no text is ever unknown.
Where paper and code differ: the paper's sentinels are the last byte ids (258, 257, …), which valid
text hardly uses; the published tokenizer has 125 more, `<extra_id_0>` = 259 to 383, which the
published weights never learnt.
Compat: bytes that are not UTF-8 are decoded as `�`; transformers leaves them out.
"""

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.special import SENTINEL, check_sentinels, sentinel_name

PUBLISHED_CLASS = "ByT5Tokenizer"
NAMES = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
SENTINELS = 125

# The printable bytes of GPT-2's alphabet stand for themselves, the others for 256 and up.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES = {
    chr(code): byte
    for code, byte in [
        *((byte, byte) for byte in _PRINTABLE),
        *enumerate((byte for byte in range(256) if byte not in _PRINTABLE), 256),
    ]
}


def byte_tokens(config: Mapping[str, Any] | None = None, source_location: str = "") -> Backend:
    """Makes the tokenizer whose tokens are bytes.

    `tokenizer_config.json` may name the first three tokens and count the sentinels.

    Raises:
        TokenizerError: If the number of sentinels is not a number, or too large.
    """
    config = config or {}
    count = config.get("extra_ids", SENTINELS)
    if type(count) is not int or count < 0:
        raise TokenizerError(
            f"{source_location}: extra_ids is {count!r}; it must be a whole number of at least 0; "
            "correct it."
        )
    check_sentinels(count, source_location)
    first = [_token(config.get(key), usual) for key, usual in NAMES.items()]
    pieces = [token.content for token in first]
    pieces += sorted(BYTES, key=lambda sign: BYTES[sign])
    backend = Backend(models.BPE({piece: number for number, piece in enumerate(pieces)}, []))
    # Nothing is ever joined, so words only say what belongs together.
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    end = first[1].content
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, 1)]
    )
    sentinels = map(sentinel_name, range(count))
    backend.add_special_tokens(
        [*first, *(AddedToken(name, normalized=False, special=True) for name in sentinels)]
    )
    return backend


def are_bytes(state: Mapping[str, Any]) -> bool:
    """Says whether the tokens of a `tokenizer.json` are those of ByT5."""
    model = state["model"]
    if model["type"] != "BPE" or model["merges"]:
        return False
    return all(model["vocab"].get(sign) == byte + len(NAMES) for sign, byte in BYTES.items())


def sentinels_of(state: Mapping[str, Any]) -> int:
    """Counts the sentinels of a `tokenizer.json`."""
    return sum(bool(SENTINEL.match(token["content"])) for token in state["added_tokens"])


def _token(stated: Any, usual: str) -> AddedToken:
    """A token that the template uses; unless stated otherwise it swallows the spaces around it."""
    if isinstance(stated, Mapping):
        flags = {side: bool(stated.get(side)) for side in ("lstrip", "rstrip")}
        name = stated.get("content")
    else:
        # Compat: where a config only names it, transformers makes it so.
        flags, name = {"lstrip": True, "rstrip": True}, stated
    name = name if isinstance(name, str) else usual
    return AddedToken(name, normalized=False, special=True, **flags)
