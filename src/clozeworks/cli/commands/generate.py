"""`clozeworks generate`: continue a text, or answer it."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import print_notes
from clozeworks.cli.outputs import open_output, uninterrupted
from clozeworks.cli.predict import ReadingOptions, dropped_rows, needs_escapes, nothing
from clozeworks.errors import SettingError
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.generate.settings import Generation
    from clozeworks.inference.streaming import StreamChunk, WrittenText
    from clozeworks.serve.client.remote_model import RemoteModel

app = App(name="clozeworks generate", help_format="plaintext", version_flags=[])
# An option that may be given several times.
Strings = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
# Prompts that are answered before the next ones.
_CHUNK = 256


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Settings:
    r"""How texts are generated; greedily if no option is given.

    Attributes:
        max_new_tokens: The maximum number of tokens to generate; 128 if not given.
        min_new_tokens: The minimum number of tokens to generate.
        stop: End before this string, \n for a line break; may be given several times.
        sample: Draw tokens at random. The next six options imply it.
        temperature: Below 1 likely tokens become likelier, above 1 less so; 0 is greedy.
        top_k: Draw from this many of the likeliest tokens.
        top_p: Draw from the likeliest tokens that together have this probability.
        min_p: Draw from tokens at least this fraction as likely as the likeliest.
        typical: Draw from the most typical tokens that together have this probability.
        seed: The same seed and prompt give the same text.
        num_beams: Search for the likeliest text with this many beams.
        length_penalty: Above 0 a search prefers long texts, below 0 short ones.
        early_stopping: When a search ends: true, as soon as enough texts have ended; false; never.
        num_beam_groups: Divide the beams into this many groups that differ.
        diversity_penalty: What a token costs for each group that chose it before.
        repetition_penalty: Divide the logits of tokens that occurred before by this.
        presence_penalty: Subtract this from the logit of each generated token.
        frequency_penalty: Subtract this for each time a token was generated.
        no_repeat_ngram_size: Generate no sequence of this many tokens twice.
        bad_words: Never generate this; may be given several times.
        required_words: Generate this, at the latest at the end; may be given several times.
        num_return_sequences: The number of texts per prompt.
        top_logprobs: In JSON, show this many alternatives of every token.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    stop: Strings = ()
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
    bad_words: Annotated[Strings, Parameter(name="--bad-word")] = ()
    required_words: Annotated[Strings, Parameter(name="--required-word")] = ()
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


@app.default
def generate(
    model: str,
    source: str,
    /,
    *more: str,
    chat: Annotated[bool, Parameter(negative="")] = False,
    settings: Settings | None = None,
    options: PromptOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Continue a text (GPT, LLaMA), or answer it (T5).

    The text for a single prompt is shown as it is generated. Several prompts are answered in order,
    each as if it were alone. Ctrl-C keeps what was generated.

    Args:
        model: A model folder or hub name with a decoder and its language-model head; or the address
            of a server, http://HOST:PORT, with #NAME for one of its models.
        source: A prompt, a file (.txt one prompt per line, .csv, .tsv, .jsonl, .json, .parquet;
            compressed or not), or - for the lines of standard input.
        more: Further prompts.
        chat: Take each prompt as a user's message in a chat, and generate the assistant's turn.
        settings: How texts are generated.
        options: How prompts are read and texts written.
        computing: Where the model computes.
    """
    chosen = (settings or Settings()).read()
    options = options or PromptOptions()
    options.check()
    prompts, several, bad = _prompts(source, more, options)
    readable = options.json_lines is False or (
        options.json_lines is None and options.out is None and (sys.stdout.isatty() or not several)
    )
    if readable and chosen.top_logprobs:
        rule = "text for people shows no alternatives"
        raise SettingError("top_logprobs", chosen.top_logprobs, rule, "add --json, or leave it out")

    loaded = (computing or ComputingOptions()).open(model)
    from clozeworks.serve.client.remote_model import RemoteModel

    writer: TextStreams
    if isinstance(loaded, RemoteModel):
        writer = RemoteWriter(loaded, chat=chat)
    else:
        writer = loaded.writer(chat=chat)  # complains if the model cannot
        if chat and not loaded.tokenizer.has_chat_template:
            print("The tokenizer has no chat template; a plain one is used.", file=sys.stderr)
    # All of them: an error in the last one is to be known before the first one is answered.
    read = list(prompts)
    if not read:
        raise nothing(source, bad)
    writer.check(read, chosen)
    if not chat and (empty := sum(not prompt for prompt in read)):  # a template fills it
        are = counted(empty, "prompt is empty; its text", "prompts are empty; their texts")
        print(f"{are} may begin in any way.", file=sys.stderr)
    totals, out = _Totals(), options.out
    lost = "a search keeps nothing of a text before it ends" if chosen.beams is not None else ""
    done = partial(totals.line, len(read) * chosen.num_return_sequences)
    with open_output(
        out, "texts", done, overwrite=options.overwrite, lost=lost, errors=True
    ) as file:
        if readable and not several and chosen.num_return_sequences == 1:
            _stream(writer, read[0], chosen, totals, file)
        else:
            _write_all(writer, read, chosen, totals, file, readable)
    print_notes(bad.notes.about_bytes())
    parts = [totals.line(), *dropped_rows(bad), *([f"texts in {out}"] if out is not None else [])]
    print(f"{'; '.join(parts)}.", file=sys.stderr)
    if line := totals.limit_line(chosen):
        print(line, file=sys.stderr)


def _prompts(
    source: str, more: Sequence[str], options: PromptOptions
) -> "tuple[Iterator[str], bool, BadRows]":
    """The prompts, whether they are several, and the collection of bad rows."""
    from clozeworks.cli.items import check_no_file
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.inference.prompts import PromptItem

    if more or not source.strip():
        check_no_file(options)
        return iter((source, *more)), bool(more), BadRows()
    inputs, bad = options.open(source, PromptItem)
    print_notes([*filter(None, [inputs.found]), *bad.notes.found])
    items = (item for chunk in inputs.chunks for item in chunk)
    return (getattr(item, "text", "") for item in items), not inputs.direct, bad


class TextStreams(Protocol):
    """Writes texts as they come, here or on a server."""

    def check(self, prompts: Sequence[str], settings: "Generation") -> None:
        """Complains about prompts and settings that cannot be, before the first text comes."""

    def stream(
        self, prompts: Sequence[str], settings: "Generation", *, first: int = 1
    ) -> "Iterator[StreamChunk]":
        """Text as it is generated; messages number the prompts from `first`."""


@dataclass(frozen=True)
class RemoteWriter:
    """Texts that a server writes."""

    model: "RemoteModel"
    chat: bool

    def check(self, prompts: Sequence[str], settings: "Generation") -> None:
        """The server checks them itself, as it gets them."""

    def stream(
        self, prompts: Sequence[str], settings: "Generation", *, first: int = 1
    ) -> "Iterator[StreamChunk]":
        """Text as it comes."""
        from clozeworks.errors import InputError
        from clozeworks.serve.client.calls import relocated

        try:
            yield from self.model.stream(prompts, settings=settings, chat=self.chat)
        except InputError as error:
            raise InputError(relocated(str(error), first - 1, None)) from error


class _Totals:
    """Counts of generated texts and tokens, for the closing lines."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.texts = self.tokens = self.at_limit = self.full = self.unfinished = 0

    def add(self, text: "WrittenText", max_new_tokens: int) -> None:
        """Counts a text, or what there is of an unfinished one."""
        at_limit = text.finish_reason == "length"
        self.texts += text.finish_reason is not None
        self.unfinished += text.finish_reason is None
        self.tokens += len(text.tokens)
        self.at_limit += at_limit
        self.full += at_limit and len(text.tokens) < max_new_tokens

    def line(self, total: int = 1) -> str:
        """How many texts (of so many) and tokens, and how fast; empty before the first token."""
        if not self.tokens and not self.texts:
            return ""
        seconds = max(time.monotonic() - self.begin, 1e-9)
        texts = counted(self.texts, "text") if total == 1 else f"{self.texts:,} of {total:,} texts"
        unfinished = f" and {self.unfinished:,} unfinished" if self.unfinished else ""
        return (
            f"{texts}{unfinished}, {counted(self.tokens, 'token')} in "
            f"{seconds:.1f} s ({self.tokens / seconds:,.0f} a second)"
        )

    def limit_line(self, settings: "Generation") -> str:
        """That texts ended at the limit; empty if none did."""
        if not self.at_limit:
            return ""
        ends = " or ".join(["the model's end", *map(repr, settings.ending.stop)])
        advice = "raise --max-new-tokens for more"
        if self.full:
            advice = (
                f"{self.full:,} of them filled the positions the model has; lower "
                "--max-new-tokens, or shorten their prompts"
            )
        return f"{counted(self.at_limit, 'text')} ended at the limit, without {ends}; {advice}."


def _stream(
    writer: "TextStreams",
    prompt: str,
    settings: "Generation",
    totals: _Totals,
    file: IO[str],
) -> None:
    last: StreamChunk | None = None
    shown = 0
    try:
        for last in writer.stream([prompt], settings):
            print(last.text, end="", file=file, flush=True)
            shown += len(last.text)
    finally:
        if last is not None:
            text = last.whole or last.so_far()
            totals.add(text, settings.ending.max_new_tokens)
            print(text.text[shown:], file=file, flush=True)  # what was held back


def _write_all(
    writer: "TextStreams",
    prompts: Sequence[str],
    settings: "Generation",
    totals: _Totals,
    file: IO[str],
    readable: bool,
) -> None:
    """Writes texts in the order of their prompts; if it is stopped, all there are."""
    from clozeworks.display.progress import ProgressBar

    escaped = needs_escapes(file)
    numbers, max_new_tokens = range(settings.num_return_sequences), settings.ending.max_new_tokens
    with ExitStack() as stack:
        progress = None
        if not (file is sys.stdout and sys.stdout.isatty()):  # texts would run into a bar
            progress = stack.enter_context(ProgressBar("texts"))
        for first in range(0, len(prompts), _CHUNK):
            finished: dict[tuple[int, int], WrittenText] = {}
            unfinished: dict[tuple[int, int], StreamChunk] = {}
            following = 0  # the first prompt of the chunk that is not written yet
            try:
                for chunk in writer.stream(
                    prompts[first : first + _CHUNK], settings, first=first + 1
                ):
                    key = chunk.prompt, chunk.number
                    if chunk.whole is None:
                        unfinished[key] = chunk
                        continue
                    with uninterrupted():  # a text that is counted is written, once
                        totals.add(chunk.whole, max_new_tokens)
                        unfinished.pop(key, None)
                        finished[key] = chunk.whole
                        while all((following, number) in finished for number in numbers):
                            for number in numbers:
                                text = finished.pop((following, number))
                                shown = _shown(text, first + following, number, readable, escaped)
                                file.write(shown)
                            file.flush()
                            following += 1
                    if progress is not None:
                        progress(totals.texts, 0)
                unfinished.clear()
            finally:
                # A search may find fewer texts than wanted; whoever stops it keeps what there is.
                for key, chunk in unfinished.items():
                    finished[key] = chunk.so_far()
                    totals.add(finished[key], max_new_tokens)
                for (prompt, number), text in sorted(finished.items(), key=lambda pair: pair[0]):
                    file.write(_shown(text, first + prompt, number, readable, escaped))
                file.flush()


def _shown(text: "WrittenText", prompt: int, number: int, readable: bool, escaped: bool) -> str:
    if readable:
        head = f"{prompt + 1}" if not number else f"{prompt + 1}.{number + 1}"
        return f"[{head}] {text.prompt}\n{text.text}\n\n"
    record: dict[str, Any] = {
        "prompt": text.prompt,
        "text": text.text,
        "finish_reason": text.finish_reason,
    }
    record |= {"score": round(text.score, 6), "tokens": []}
    for token in text.tokens:
        entry: dict[str, Any] = {"token": token.text, "log": round(token.log, 6)}
        if token.others:
            entry["others"] = {name: round(log, 6) for name, log in token.others}
        record["tokens"].append(entry)
    return as_json(record, ascii_only=escaped) + "\n"
