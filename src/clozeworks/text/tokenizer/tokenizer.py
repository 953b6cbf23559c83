"""The tokenizer: text to ids and back, loaded from and saved to the usual files."""

import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import normalizers

from clozeworks.errors import InputError, SettingError, TokenizerError
from clozeworks.text.tokenizer import files
from clozeworks.text.tokenizer.bytes import PUBLISHED_CLASS, byte_tokens
from clozeworks.text.tokenizer.chat import PLAIN_TEMPLATE, ChatTemplate, template_of, tokens_of
from clozeworks.text.tokenizer.continuation import Continuation
from clozeworks.text.tokenizer.encoding import Encoded, cut, lengths, positions_within
from clozeworks.text.tokenizer.fingerprint import fingerprint
from clozeworks.text.tokenizer.library import FAILS, library
from clozeworks.text.tokenizer.saving import NO_LIMIT, write
from clozeworks.text.tokenizer.special import SpecialTokens
from clozeworks.text.tokenizer.styles import Style
from clozeworks.text.tokenizer.vocabulary_files import Repeats
from clozeworks.text.valid import check_lengths, check_texts, check_unicode, location_of
from clozeworks.text.windows import sliding_windows
from clozeworks.wording import shortened, visible

__all__ = ["Encoded", "Tokenizer"]

GAPS = re.compile(re.escape("[MASK]") + "|" + re.escape("<mask>"))
SHORTEN = "shorten it, or have it cut with --truncate (truncate=True in Python)"


class Tokenizer:
    """Turns text into token ids and ids into text.

    It never pads, and never cuts a text unless asked to.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        special: SpecialTokens | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        """Wraps a tokenizer of the Rust library.

        Args:
            backend: The library's tokenizer; its stored truncation and padding are switched off.
            special: Names of the special tokens; None looks for well-known ones.
            config: What `tokenizer_config.json` holds; kept and written again by `save`.
        """
        # Trap: many published files cut at 128 or 512 tokens without a word.
        if backend.truncation is not None:
            backend.no_truncation()
        if backend.padding is not None:
            backend.no_padding()
        self._backend = backend
        self._config = dict(config or {})
        self._vocabulary = backend.get_vocab(with_added_tokens=True)
        self.size = max(self._vocabulary.values(), default=-1) + 1
        self.special = special or files.special_tokens(
            self._config, self._vocabulary, None, files.special_names(backend)
        )
        self.pad_id = self.id_of(self.special.pad)
        self.unknown_id = self.id_of(self.special.unknown)
        self.mask_id = self.id_of(self.special.mask)
        self.first_id = self.id_of(self.special.first)
        self.last_id = self.id_of(self.special.last)
        limit = self._config.get("model_max_length")
        stated = isinstance(limit, int | float) and 0 < limit < NO_LIMIT
        self.max_length = int(limit) if stated and limit is not None else None

    @classmethod
    def load(
        cls, folder: Path | str, style: Style | None = None, *, repeats: Repeats = "last"
    ) -> "Tokenizer":
        """Reads a tokenizer folder.

        `tokenizer.json` comes first, then `vocab.txt` (WordPiece), then `vocab.json` with
        `merges.txt` (BPE over bytes, or over characters as GPT's). What `tokenizer_config.json`
        states goes before all of them and before the style, as in transformers. ByT5 needs no other
        file, T5 and mT5 only `spiece.model`. Where `clozeworks.json` lists the files, they must be
        those that were saved.

        Args:
            folder: Where the files are.
            style: How the family writes text, for folders that do not say it.
            repeats: What a token that stands twice in `vocab.txt` does: "last" counts its last
                line, as transformers does and the published Chinese BERT needs, and leaves the
                other id without a token; "error" complains.

        Raises:
            TokenizerError: If files are missing, damaged or contradict each other.
        """
        backend, special, config = files.read_folder(Path(folder), style, repeats)
        return cls(backend, special=special, config=config)

    @classmethod
    def of_bytes(cls) -> "Tokenizer":
        """Makes the tokenizer of ByT5, whose tokens are bytes; it needs no file."""
        return cls(byte_tokens(), config={"tokenizer_class": PUBLISHED_CLASS})

    @staticmethod
    def is_in(folder: Path, style: Style | None = None) -> bool:
        """Says whether a folder holds a tokenizer, or says that it needs none."""
        return files.holds_tokenizer(folder, style)

    def save(self, folder: Path | str, *, max_length: int | None = None) -> None:
        """Writes the files that `load` and transformers read.

        Args:
            folder: The folder, made if it is not there; files of the same names are replaced.
            max_length: The model's limit, stated where the tokenizer states none of its own.

        Raises:
            OutputError: If the folder cannot be written.
        """
        config = dict(self._config)
        if self.max_length is None and max_length is not None:
            config["model_max_length"] = max_length
        write(Path(folder), self._backend, self.state, self.special, config)

    @cached_property
    def state(self) -> dict[str, Any]:
        """What `tokenizer.json` holds."""
        loaded: dict[str, Any] = json.loads(self._backend.to_str())
        return loaded

    @property
    def kind(self) -> str:
        """The model's name in small letters: wordpiece, bpe, unigram, wordlevel."""
        return str(self.state["model"]["type"]).lower()

    def __repr__(self) -> str:
        special = " ".join(map(self.token_of, sorted(self.special_ids)))
        limit = f", texts of up to {self.max_length:,} tokens" if self.max_length else ""
        entries = f"{self.kind}, {self.size:,} entries{limit}"
        return f"Tokenizer({entries}; special: {shortened(visible(special), 200)})"

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 that changes when texts become other ids."""
        with library("the tokenizer", FAILS):
            return fingerprint(self._backend, self._vocabulary, self.state)

    @cached_property
    def lowercased(self) -> "Tokenizer":
        """The same tokenizer, reading all letters as small ones."""
        if '"Lowercase"' in json.dumps(self.state["normalizer"]):
            return self
        backend = Backend.from_str(self._backend.to_str())
        steps = [normalizers.Lowercase(), backend.normalizer]
        backend.normalizer = normalizers.Sequence([step for step in steps if step is not None])
        return Tokenizer(backend, special=self.special, config=self._config)

    def id_of(self, token: str | None) -> int | None:
        """Gives the id of a vocabulary entry, or None."""
        return None if token is None else self._vocabulary.get(token)

    def token_of(self, token_id: int) -> str:
        """Gives the vocabulary entry of an id.

        Raises:
            InputError: If no token has this id.
        """
        self._check_ids([token_id])
        token = self._backend.id_to_token(token_id)
        if token is None:
            raise InputError(
                f"token id is {token_id:,}; the vocabulary leaves that id empty; use an id of "
                "vocabulary()."
            )
        return token

    def vocabulary(self) -> dict[str, int]:
        """Gives the id of every token, in the order of the ids."""
        return dict(sorted(self._vocabulary.items(), key=lambda item: item[1]))

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids that stand for no text: padding, unknown, mask, first and last, and the like."""
        named = (self.pad_id, self.unknown_id, self.mask_id, self.first_id, self.last_id)
        return frozenset(one for one in (*named, *self._marked_special) if one is not None)

    @cached_property
    def _marked_special(self) -> list[int]:
        return [self._vocabulary[name] for name in files.special_names(self._backend)]

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Turns ids into text.

        Args:
            ids: Token ids.
            skip_special: Whether special tokens are left out.

        Raises:
            InputError: If an id is outside the vocabulary.
        """
        ids = [int(token_id) for token_id in ids]
        self._check_ids(ids)
        with library("the tokenizer", FAILS):
            return self._backend.decode(ids, skip_special_tokens=skip_special)

    def continued(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """The text that ids add after others, the space between them with it."""
        return self._continuation.whole(before, ids)

    def unfolding(self, before: Sequence[int]) -> Callable[[int], str]:
        """A function that takes ids one by one and gives the text that is certain with each."""
        return self._continuation.unfolding(before)

    def begin_of_last(self, ids: Sequence[int], count: int) -> int:
        """Where the last `count` text tokens begin; earlier if a run of bytes is cut there."""
        return self._continuation.begin_of_last(ids, count)

    def end_of_run(self, ids: Sequence[int], position: int) -> int:
        """The first position from this one on where a cut does not lie within a run of bytes."""
        return self._continuation.end_of_run(ids, position)

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        truncate: bool = False,
        special: bool = True,
        offsets: bool = False,
        source_locations: Sequence[str] | None = None,
        advice: str = SHORTEN,
    ) -> list[Encoded]:
        """Turns texts, or pairs of texts, into tokens.

        Args:
            texts: The texts; an empty one gives only special tokens.
            pairs: The second text of each pair.
            max_length: The most tokens a result may have, special tokens among them.
            truncate: Whether longer texts are cut at the end, of a pair the longer text first.
            special: Whether special tokens are added.
            offsets: Whether offsets, words and parts are given too; this is slower.
            source_locations: Where each text came from, for messages: `reviews.csv, row 8,412`.
            advice: What a message says to do about a text that is too long.

        Raises:
            InputError: If a text is not a valid string, or is too long and may not be cut.
            SettingError: If `max_length` leaves no room.
        """
        check_texts("text", texts)
        batch: list[Any] = list(texts)
        if pairs is not None:
            check_texts("pair", pairs)
            if len(pairs) != len(texts):
                raise InputError(
                    f"pairs has {len(pairs):,} texts and texts has {len(texts):,}; each text needs "
                    "one partner; give lists of equal length."
                )
            batch = list(zip(texts, pairs, strict=True))
        if truncate and max_length is None:
            raise SettingError(
                "max_length", None, "`truncate` is True, and cutting needs a length", "give one"
            )
        run = self._backend.encode_batch if offsets else self._backend.encode_batch_fast
        try:
            with library("the tokenizer", FAILS):
                encodings = run(batch, add_special_tokens=special)
        except TypeError:
            for what, each in (("text", texts), ("pair", pairs or ())):
                for number, text in enumerate(each, 1):
                    check_unicode(what, number, text)
            raise
        except TokenizerError:
            for number, one in enumerate(batch):
                with library(f"{location_of(number, source_locations)}: the tokenizer", FAILS):
                    run([one], add_special_tokens=special)
            raise
        encoded = [Encoded.of(encoding, offsets=offsets) for encoding in encodings]
        if max_length is None:
            return encoded
        if not truncate:
            check_lengths(list(map(len, encoded)), max_length, source_locations, advice)
            return encoded
        return [
            item if len(item) <= max_length else cut(item, encoding.sequence_ids, max_length)
            for item, encoding in zip(encoded, encodings, strict=True)
        ]

    def windows(
        self, text: str, length: int, overlap: int, pair: str | None = None
    ) -> list[Encoded]:
        """Cuts a long text into overlapping windows, with offsets into the original text.

        With a pair the first text stands whole in every window and the second is cut, so that
        `windows(question, 384, 128, context)` is what extractive question answering wants.

        Args:
            text: The text; with a pair, the one that is repeated.
            length: The most tokens of a window, special tokens among them.
            overlap: Tokens that neighbouring windows share.
            pair: The text that is cut instead.

        Raises:
            SettingError: If no room is left for the text, or the overlap fills it.
        """
        whole = self.encode([text], None if pair is None else [pair], offsets=True)[0]
        assert whole.part is not None
        counts = lengths(whole.part)
        moving = counts[0 if pair is None else 1]
        fixed = len(whole) - moving
        room = length - fixed
        if room < 1:
            raise SettingError(
                "length",
                length,
                f"{fixed:,} tokens stand in every window, so at least {fixed + 1:,} are needed",
                "raise length",
            )
        if not 0 <= overlap < room:
            raise SettingError(
                "overlap",
                overlap,
                f"it must be at least 0 and below {room:,}, the room a window of {length:,} has",
                "lower overlap or raise length",
            )
        windows = []
        for begin, _, end in sliding_windows(moving, room, overlap):
            stretch = range(begin, end)
            chosen = (stretch, range(0)) if pair is None else (range(counts[0]), stretch)
            windows.append(whole.pick(positions_within(whole.part, *chosen)))
        return windows

    def mark_gaps(self, text: str) -> str:
        """Writes every `[MASK]` and `<mask>` as this tokenizer's own mask token.

        A mask that swallows the space before it (RoBERTa's) does so when the text is encoded; the
        text itself keeps its spaces.

        Raises:
            TokenizerError: If the tokenizer has no mask token.
        """
        mask = self.special.mask
        if mask is None:
            raise TokenizerError(
                "the tokenizer's mask token is None; gaps need one; use a masked language model "
                "such as BERT or RoBERTa."
            )
        return GAPS.sub(lambda _: mask, text)

    @property
    def has_chat_template(self) -> bool:
        """Whether it says how chats are written."""
        return template_of(self._config) is not None

    @property
    def chat(self) -> ChatTemplate:
        """How chats are written; a plain way if the tokenizer does not say it."""
        source = template_of(self._config)
        tokens = tokens_of(self._config, self.special)
        return ChatTemplate(PLAIN_TEMPLATE if source is None else source, tokens)

    def with_chat_template(self, source: str) -> "Tokenizer":
        """The same tokenizer, saying how chats are written."""
        config = {**self._config, "chat_template": source}
        return Tokenizer(self._backend, special=self.special, config=config)

    def with_max_length(self, length: int) -> "Tokenizer":
        """The same tokenizer, saying how many tokens a text may have."""
        config = {**self._config, "model_max_length": length}
        return Tokenizer(self._backend, special=self.special, config=config)

    def vocabulary_pieces(self, word: str) -> list[str]:
        """Lists the pieces of a word as it would stand inside a sentence."""
        return [self.token_of(token_id) for token_id in self.ids_inside(word)]

    def ids_inside(self, word: str) -> list[int]:
        """The ids of a word, or of several, as it would stand inside a sentence."""
        text = " " + word if self._writes_spaces else word
        return list(self.encode([text], special=False)[0].ids)

    def single_id(self, word: str) -> int | None:
        """Gives the id of a word that is one token inside a sentence, or a vocabulary entry."""
        pieces = self.vocabulary_pieces(word)
        if len(pieces) == 1 and pieces[0] != self.special.unknown:
            return self.id_of(pieces[0])
        return self.id_of(word)

    @cached_property
    def _continuation(self) -> Continuation:
        decoder = self.state["decoder"]
        return Continuation(self.decode, decoder, self._vocabulary, self._marked_special)

    @cached_property
    def _writes_spaces(self) -> bool:
        # Byte-level pieces carry the space before a word; Metaspace adds its own.
        return '"ByteLevel"' in json.dumps(self.state["pre_tokenizer"])

    def _check_ids(self, ids: Sequence[int]) -> None:
        if ids and (min(ids) < 0 or max(ids) >= self.size):
            wrong = next(token_id for token_id in ids if not 0 <= token_id < self.size)
            raise InputError(
                f"token id is {wrong:,}; ids go from 0 to {self.size - 1:,}; check that the ids "
                "were made with this tokenizer."
            )
