"""`clozeworks generate`: go on with a text, or answer it."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cyclopts import App, Parameter

from clozeworks.cli.outputs import open_output
from clozeworks.cli.predict import ReadingOptions, nothing
from clozeworks.errors import SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.generate.settings import Generation
    from clozeworks.inference.generate import TextWriter
    from clozeworks.inference.streaming import StreamChunk, WrittenText

app = App(name="clozeworks generate", help_format="plaintext", version_flags=[])
# Prompts that are answered before those behind them.
_AT_ONCE = 256


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Settings:
    r"""How texts are written. Without any the likeliest token is taken each time.

    Attributes:
        max_new_tokens: The most tokens that are written; 128 if not given.
        min_new_tokens: The fewest.
        stop: End before this string, \n for a line end; may be given several times.
        sample: Draw tokens at random. So do the next six.
        temperature: Below 1 the likely become likelier, above 1 all more alike; 0 is no drawing.
        top_k: Draw from so many of the likeliest.
        top_p: Draw from the likeliest that together have this share.
        min_p: Draw from tokens at least this share as likely as the likeliest.
        typical: Draw from tokens as surprising as one expects, up to this share.
        seed: The same seed and prompt give the same text.
        num_beams: Search for the likeliest text, keeping so many beginnings.
        length_penalty: Above 0 a search prefers long texts, below 0 short ones.
        early_stopping: When a search ends: true, as soon as enough texts ended; false; never.
        num_beam_groups: Part the beams into groups that must differ.
        diversity_penalty: What a token costs for each group that chose it before.
        repetition_penalty: Divide scores of tokens that are there already by this.
        presence_penalty: Take this off the score of each token that was written.
        frequency_penalty: Take this off as often as it was written.
        no_repeat_ngram_size: Write no run of so many tokens twice.
        bad_words: Never write this; may be given several times.
        required_words: Write this, at the latest at the end; may be given several times.
        num_return_sequences: How many texts for each prompt.
        top_logprobs: Show so many alternatives of every token, in JSON.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    stop: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    sample: Annotated[bool | None, Parameter(negative="")] = None
    temperature: Annotated[float | None, Parameter(alias="-t")] = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical: float | None = None
    seed: int | None = None
    num_beams: int | None = None
    length_penalty: float | None = None
    early_stopping: Literal["true", "false", "never"] | None = None
    num_beam_groups: int | None = None
    diversity_penalty: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    bad_words: Annotated[
        tuple[str, ...], Parameter(name="--bad-word", negative="", show_default=False)
    ] = ()
    required_words: Annotated[
        tuple[str, ...], Parameter(name="--required-word", negative="", show_default=False)
    ] = ()
    num_return_sequences: Annotated[int, Parameter(alias="-n")] = 1
    top_logprobs: int = 0

    def read(self) -> "Generation":
        """The settings, checked."""
        from clozeworks.generate.settings import Generation

        named: dict[str, Any] = asdict(self)
        named["stop"] = tuple(string.replace("\\n", "\n") for string in self.stop)
        if self.early_stopping is not None:
            stopping = self.early_stopping
            named["early_stopping"] = stopping if stopping == "never" else stopping == "true"
        with typed():
            return Generation.of(**named)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PromptOptions(ReadingOptions):
    """How prompts are read and texts written.

    Attributes:
        columns: Which column of a file holds the prompts, by name or number: text=question.
            Detected if not given.
        json_lines: Print one JSON object per text, or text for people. If not given: text if the
            output is a terminal or one prompt is typed, JSON otherwise.
    """

    answers: ClassVar[str] = "texts"


@contextmanager
def typed() -> Iterator[None]:
    """Lets errors about settings name them as they are typed: --top-k for top_k."""
    try:
        yield
    except SettingError as error:
        raise error.respelled(_option) from error


def _option(name: str) -> str:
    """The option of a setting."""
    word = name.replace("_", "-")
    return "--" + (word.removesuffix("s") if word.endswith("-words") else word)


@app.default
def generate(
    model: str,
    source: str,
    /,
    *more: str,
    chat: Annotated[bool, Parameter(negative="")] = False,
    settings: Settings | None = None,
    options: PromptOptions | None = None,
) -> None:
    """Go on with a text (GPT, LLaMA), or answer it (T5).

    One prompt is answered as the text comes. Of several each is answered as if it were alone, in
    the order given. Ctrl-C keeps what was written.

    Args:
        model: A model folder or hub name with a decoder and its language-model head.
        source: A prompt, a file (.txt one prompt per line, .csv, .tsv, .jsonl, .json, .parquet;
            compressed or not), or - for the lines of standard input.
        more: Further prompts.
        chat: Put each prompt as what a user says in a chat, and write the assistant's turn.
        settings: How texts are written.
        options: How prompts are read and texts written.
    """
    chosen = (settings or Settings()).read()
    options = options or PromptOptions()
    options.check()
    prompts, several, bad = _prompts(source, more, options)
    readable = options.json_lines is False or (
        options.json_lines is None and options.out is None and (sys.stdout.isatty() or not several)
    )
    if readable and chosen.top_logprobs:
        raise SettingError(
            f"--top-logprobs is {chosen.top_logprobs}, and the output is text for people, which "
            "shows no alternatives; add --json, or leave --top-logprobs out."
        )

    from clozeworks.language_model import load

    loaded = load(model)
    writer = loaded.writer(chat=chat)  # complains if the model cannot
    if chat and not loaded.tokenizer.has_chat_template:
        print("The tokenizer says nothing of chats; a plain template is used.", file=sys.stderr)
    # All of them: what is wrong with the last one is to be known before the first one is answered.
    read = list(prompts)
    if not read:
        raise nothing(source, bad)
    with typed():
        writer.check(read, chosen)
    if not chat and (empty := sum(not prompt for prompt in read)):  # a template stands before it
        are = counted(empty, "prompt is empty; its text", "prompts are empty; their texts")
        print(f"{are} may begin in any way.", file=sys.stderr)
    told = _Told()
    lost = "a search keeps nothing of a text before it ends" if chosen.beams is not None else ""
    kept = open_output(
        options.out, "texts", told.until, overwrite=options.overwrite, lost=lost, errors=True
    )
    with kept as file, typed():
        if readable and not several and chosen.num_return_sequences == 1:
            _stream(writer, read[0], chosen, told)
        else:
            _write_all(writer, read, chosen, told, file, readable)
    where = f"; texts in {options.out}" if options.out is not None else ""
    dropped = ""
    if bad.rows:
        dropped = f"; {counted(len(bad.rows), 'bad row')} dropped, the first: {bad.rows[0]}"
    print(f"{told.line()}{dropped}{where}.", file=sys.stderr)
    if missed := told.missed(chosen):
        print(missed, file=sys.stderr)


def _prompts(
    source: str, more: Sequence[str], options: PromptOptions
) -> "tuple[Iterator[str], bool, BadRows]":
    """The prompts, whether they are several, and where rows that cannot be used are noted."""
    from clozeworks.data.labelled.bad_rows import BadRows

    if more or not source.strip():
        options.check_two_texts()
        return iter((source, *more)), bool(more), BadRows()
    from clozeworks.inference.prompts import PromptItem

    asked, bad = options.open(source, PromptItem)
    if asked.found:
        print(asked.found, file=sys.stderr)
    items = (item for chunk in asked.chunks for item in chunk)
    return (getattr(item, "text", "") for item in items), not asked.direct, bad


class _Told:
    """What there is to say in the end."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.texts = self.tokens = self.unended = self.full = self.begun = 0

    def add(self, text: "WrittenText", max_new_tokens: int) -> None:
        """One more text, which could have had so many tokens; or what there is of one."""
        self.texts += text.finish_reason is not None
        self.begun += text.finish_reason is None
        self.tokens += len(text.tokens)
        self.unended += text.finish_reason == "length"
        self.full += text.finish_reason == "length" and len(text.tokens) < max_new_tokens

    def line(self) -> str:
        """How much, how fast."""
        seconds = max(time.monotonic() - self.begin, 1e-9)
        begun = f" and {self.begun:,} unfinished" if self.begun else ""
        return (
            f"{counted(self.texts, 'text')}{begun}, {counted(self.tokens, 'token')} in "
            f"{seconds:.1f} s ({self.tokens / seconds:,.0f} a second)"
        )

    def until(self) -> str:
        """The same of work that was stopped; nothing if no token was written."""
        return self.line() if self.tokens else ""

    def missed(self, settings: "Generation") -> str | None:
        """That texts came to no end of their own."""
        if not self.unended:
            return None
        wanted = "the model's end"
        if settings.ending.stop:
            wanted += f" or {' or '.join(map(repr, settings.ending.stop))}"
        what = "raise --max-new-tokens for more"
        if self.full:
            what = (
                f"{self.full:,} of them filled the positions the model has; lower "
                f"--max-new-tokens, or shorten their prompts"
            )
        return f"{counted(self.unended, 'text')} ended at the limit, without {wanted}; {what}."


def _stream(writer: "TextWriter", prompt: str, settings: "Generation", told: _Told) -> None:
    last: StreamChunk | None = None
    shown = 0
    try:
        for last in writer.stream([prompt], settings):
            print(last.text, end="", flush=True)
            shown += len(last.text)
    finally:
        if last is not None:
            text = last.whole or last.so_far()
            told.add(text, settings.ending.max_new_tokens)
            print(text.text[shown:], flush=True)  # what was held back


def _write_all(
    writer: "TextWriter",
    prompts: Sequence[str],
    settings: "Generation",
    told: _Told,
    file: IO[str],
    readable: bool,
) -> None:
    """Writes texts down in the order of their prompts; if it is stopped, all there are."""
    from clozeworks.cli.display.progress import ProgressBar

    escaped = (getattr(file, "encoding", None) or "").lower().replace("-", "") != "utf8"
    with ExitStack() as stack:
        progress = None
        if not (file is sys.stdout and sys.stdout.isatty()):  # texts would run into a bar
            progress = stack.enter_context(ProgressBar("texts"))
        for done in range(0, len(prompts), _AT_ONCE):
            chunk = prompts[done : done + _AT_ONCE]
            waiting: dict[tuple[int, int], WrittenText] = {}
            begun: dict[tuple[int, int], StreamChunk] = {}
            following = 0  # the first prompt of the chunk that is not written down yet
            try:
                for fresh in writer.stream(chunk, settings, first=done + 1):
                    key = fresh.prompt, fresh.number
                    if fresh.whole is None:
                        begun[key] = fresh
                        continue
                    told.add(fresh.whole, settings.ending.max_new_tokens)
                    begun.pop(key, None)
                    waiting[key] = fresh.whole
                    if progress is not None:
                        progress(told.texts, 0)
                    numbers = range(settings.num_return_sequences)
                    while all((following, number) in waiting for number in numbers):
                        for number in numbers:
                            text = waiting.pop((following, number))
                            file.write(_shown(text, done + following, number, readable, escaped))
                        file.flush()
                        following += 1
                begun.clear()
            finally:
                # A search may find fewer texts than asked for; who is stopped keeps what there is.
                for key, fresh in begun.items():
                    waiting[key] = fresh.so_far()
                    told.add(waiting[key], settings.ending.max_new_tokens)
                for (path, number), text in sorted(waiting.items(), key=lambda left: left[0]):
                    file.write(_shown(text, done + path, number, readable, escaped))
                file.flush()


def _shown(text: "WrittenText", path: int, number: int, readable: bool, escaped: bool) -> str:
    if readable:
        head = f"{path + 1}" if not number else f"{path + 1}.{number + 1}"
        return f"[{head}] {text.prompt}\n{text.text}\n\n"
    record: dict[str, Any] = {
        "prompt": text.prompt,
        "text": text.text,
        "finish_reason": text.finish_reason,
        "score": round(text.score, 6),
        "tokens": [
            {"token": token.text, "log": round(token.log, 6)}
            | (
                {"others": {name: round(log, 6) for name, log in token.others}}
                if token.others
                else {}
            )
            for token in text.tokens
        ],
    }
    return json.dumps(record, ensure_ascii=escaped) + "\n"
