r"""Text to text: a model reads a text and writes another; every task can be put so.

Paper: Raffel et al. 2020 (T5); Ouyang et al. 2022 (instructions and answers for one tower).
Data: sources and targets, instructions and outputs, or chats; with a format also labelled texts,
pairs and questions.
Hides and asks: hides nothing; asks for each token of the target and for its end, all before it
known.
Loss: -log p(token) of targets only, each token counting once; what is read costs nothing.
Relations: `Classify` and `Answer` choose, this writes; formats put their items as text. An
encoder-decoder (`between` is None) reads the source in one tower and writes in the other, a decoder
reads both in a row. Of a chat one tower learns all turns of the assistant, an encoder-decoder the
last one.
Where paper and code differ: the paper leaves open how a word counts that is not a label; here, as
in T5's code, it is wrong, and in Matthews' correlation a label of its own.
Example: `TextToText(prefix="summarize: ")`, for one tower
`{kind = "text_to_text", between = "\n", writing = {max_new_tokens = 5}}`.

Shapes: N tokens, n tokens of all targets, B rows, W width.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from clozeworks import config
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.model import Model
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.in_memory import DataSource
from clozeworks.data.labelled.items import Item, ItemLocations, Label
from clozeworks.data.labelled.reading import Labelled, Reading
from clozeworks.errors import InputError, SettingError
from clozeworks.generate.beams import Beams
from clozeworks.generate.prompts import EncodedPrompt, GenerationRequest
from clozeworks.generate.sampling import Written
from clozeworks.objectives.batch import BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.teacher_forcing import TeacherForced
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveInt, spec
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import Detail, DetailTable, Mistake, marked
from clozeworks.tasks.spans.windows import TokenWindow, Windows
from clozeworks.tasks.task import (
    Prepared,
    ShownPrediction,
    StartingModel,
    Target,
    Task,
    TaskData,
)
from clozeworks.tasks.text_to_text.formats import Format, format_of
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Writable, WritingItem
from clozeworks.tasks.text_to_text.rows import (
    Apart,
    PrefixRows,
    RowBuilder,
    RowSettings,
    TextLengths,
    TokenRow,
    chat_end,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import shortened

# What stands between source and target in one tower, if that is not set.
BETWEEN = "\n"
# The most tokens of what is written, if no training set decides it.
USUAL = 128
# Written texts that a report shows.
_SHOWN = 10


@spec
class Writing:
    """How texts are written."""

    max_new_tokens: PositiveInt | None = None
    """The most tokens; as many as the longest target has where a model is trained, else 128."""
    num_beams: PositiveInt = 1
    """How many beginnings of a text a search keeps; 1 takes the likeliest token each time."""
    length_penalty: float = 1.0
    """Of a search: above 0 long texts gain, below 0 short ones."""

    def __post_init__(self) -> None:
        if self.num_beams == 1 and self.length_penalty != 1.0:
            rule, advice = "it has no effect without a search", "set `num_beams`, or leave it out"
            raise SettingError("length_penalty", self.length_penalty, rule, advice)

    def search(self) -> Beams | None:
        """The search, if there is one."""
        if self.num_beams == 1:
            return None
        return Beams(num_beams=self.num_beams, length_penalty=self.length_penalty)


@dataclass(frozen=True)
class Composed:
    """What a model writes."""

    text: str
    score: float
    """How likely its tokens were, by the mean of their logs: from 0 to 1."""
    label: Label = None
    """What the format reads in it; None if it has no such word. The text itself where the format
    has no words, or there is no format."""
    ended: bool = True
    """Whether the model ended it; otherwise there was no more room."""
    cut: bool = False
    """Whether the source was cut."""
    windows: int = 1
    """Through how many windows the source was read: always one."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "text": self.text,
            "score": self.score,
            "ended": self.ended,
            **({} if self.label == self.text else {"label": self.label}),
            **({"cut": True} if self.cut else {}),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], item: Any = None) -> "Composed":
        """The same from what `to_dict` wrote."""
        text = record["text"]
        label = record.get("label", text)
        return cls(
            text=text,
            score=record["score"],
            label=tuple(label) if isinstance(label, list) else label,
            ended=record["ended"],
            cut=record.get("cut", False),
        )


@spec
class TextToText(TeacherForced, Task[Item, Composed]):
    """Writes a text for a text."""

    folder: ClassVar[str | None] = "clozeworks.tasks"  # among the tasks, not the objectives
    paper: ClassVar[str] = "Raffel et al. 2020"
    item_type: ClassVar[type[Item]] = WritingItem
    answer_type: ClassVar[type[Any]] = Composed
    summary: ClassVar[str] = "write a text for a text: summaries, translations, chats"
    description: ClassVar[str] = (
        "Write a text for each text: summaries, translations, answers, what the model was taught. "
        "The prefix the model was taught with is put before each text. Answers come in the order "
        "of the texts, some dozens at a time; Ctrl-C keeps those that are done."
    )
    title: ClassVar[str] = "Text to text"
    ability: ClassVar[str] = "write texts"
    architecture: ClassVar[str] = "…ForConditionalGeneration or …ForCausalLM"
    pipeline_tag: ClassVar[str] = "text-generation"
    can_augment: ClassVar[bool] = False
    writes: ClassVar[bool] = True
    chunk_items: ClassVar[int | None] = 64
    python_usage: ClassVar[str] = 'outputs = model.text_to_text(["a text"])'
    head: ClassVar[str] = HEAD
    windows: ClassVar[Windows] = Windows()  # sources are read whole
    owns_forward: ClassVar[bool] = True

    prefix: str = ""
    """What stands before every source that brings no prefix of its own, such as "summarize: "."""
    format: str | None = None
    """A published way to put labelled items as text: cola, sst2, mrpc, qqp, stsb, mnli, qnli, rte,
    squad, summarize, translate_en_de, translate_en_fr, translate_en_ro."""
    formats: dict[str, str] = field(default_factory=dict)
    """The same for each of several tasks, by the task's name."""
    between: str | None = None
    """What stands between source and target where one tower reads both; None: an encoder reads the
    source, a decoder writes the target. It follows from the model if not given."""
    lengths: TextLengths = TextLengths()
    """The most tokens of sources and targets."""
    writing: Writing = Writing()
    """How texts are written."""
    metric: str | None = None
    """What it is measured by first; that of the format, or chrf, if not given."""

    def __post_init__(self) -> None:
        for name in self.formats.values():
            format_of(name, "formats")
        if self.format is None:
            return
        format_of(self.format, "format")
        if self.formats:
            rule = "`formats` name one for each task; one excludes the other"
            raise SettingError("format", self.format, rule, "leave one of them out")
        if self.prefix:
            rule = f"`format` is {self.format!r}, which has its own"
            raise SettingError("prefix", self.prefix, rule, "leave one of them out")

    @property
    def rows(self) -> RowBuilder:
        """How items become rows: in two towers, or one after the other."""
        return Apart() if self.between is None else PrefixRows(self.between)

    def check(self, blueprint: Blueprint) -> None:
        """Complains about models that cannot write, or read and write in another way.

        Raises:
            SettingError: If the model cannot do the task as it is set.
        """
        if not blueprint.can_generate or HEAD not in blueprint.heads:
            rule = "the model cannot write: its tokens see later ones, or it has no vocabulary head"
            advice = "use T5, GPT-2, LLaMA or their relatives"
            raise SettingError("task", self.name, rule, advice)
        entries, beams = blueprint.embeddings.tokens, self.writing.num_beams
        if beams > entries:
            rule = f"the vocabulary has {entries:,} entries; a search cannot be wider"
            raise SettingError("task.writing.num_beams", beams, rule, "lower it")
        max_length, longest = blueprint.max_length(), self.lengths.source
        if max_length is not None and longest is not None and longest > max_length:
            rule = f"this model takes at most {max_length:,} tokens"
            raise SettingError("task.lengths.source", longest, rule, "lower it")
        if blueprint.decoder is not None and self.between is not None:
            rule = "the model reads the source in a tower of its own; then nothing stands between"
            raise SettingError("task.between", self.between, rule, "leave it out")
        if blueprint.decoder is None and self.between is None:
            rule = "the model reads source and target in one tower; say what stands between them"
            raise SettingError("task.between", None, rule, 'set it, such as between = "\\n"')

    @classmethod
    def read(
        cls,
        files: Sequence[DataSource],
        settings: Mapping[str, Any],
        reading: Reading,
        bad: BadRows,
        *,
        train: Labelled | None = None,
    ) -> Labelled:
        """Reads files of one task, or of several; formats decide what is read."""
        from clozeworks.tasks.text_to_text.data import names_of_files, read_texts

        task = config.read(Task, dict(settings), "task")
        names = names_of_files(task, files, reading, train)
        return read_texts(files, task, reading, bad, names=names)

    @classmethod
    def item_read(cls, changes: Sequence[str]) -> type[Item]:
        """What the format asks for, if one is named."""
        named = [each.partition("=")[2] for each in changes if each.startswith("task.format=")]
        return format_of(named[-1], "task.format").item_type if named else cls.item_type

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], data: TaskData) -> Prepared:
        """The task fitted to the model, with the room that its targets need."""
        from clozeworks.tasks.text_to_text.data import prepared

        blueprint = data.model.blueprint
        if blueprint.decoder is None and blueprint.can_generate:
            settings = {"between": BETWEEN, **settings}
        task = config.read(Task, dict(settings), "task")
        task.check(blueprint)
        return prepared(task, data)

    def files_hold(self) -> type[Item]:
        """What its format asks for."""
        return self.item_type if self.format is None else format_of(self.format).item_type

    def read_to_measure(
        self, files: Sequence[DataSource], reading: Reading, bad: BadRows
    ) -> Labelled:
        """Reads files as its format, or those of its tasks, ask for."""
        from clozeworks.tasks.text_to_text.data import named_formats, read_texts

        return read_texts(files, self, reading, bad, names=named_formats(self, files))

    def compared(self, item: Any, answer: Composed) -> tuple[Any, Any]:
        """The target and what was written."""
        return item.target, answer.text

    @classmethod
    def without_training(cls, model: StartingModel) -> "TextToText | None":
        """Any model that generates text can be asked to."""
        blueprint = model.blueprint
        if not blueprint.can_generate or HEAD not in blueprint.heads:
            return None
        return cls(between=None if blueprint.decoder is not None else BETWEEN)

    def item_of(self, text: str, source_location: str = "") -> Item:
        """The item of a single text: a source, or what a format writes as one.

        Raises:
            InputError: If the format needs two texts.
        """
        kind = self.files_hold()
        if kind not in (WritingItem, TextItem):
            raise InputError(
                f"{source_location or 'the text'} is one text, and the format {self.format!r} "
                "writes two as one; ask with a PairItem or a QuestionItem."
            )
        return kind.from_texts([text], source_location)

    def format_for(self, item: Item) -> Format | None:
        """The format of an item: its task's, or that of all."""
        name = self.formats.get(getattr(item, "task", ""), self.format)
        return None if name is None else format_of(name)

    def as_asked(self, item: Item) -> Writable:
        """The item as text to read and text to write.

        Raises:
            InputError: If it is of another kind, and there is no format to write it.
        """
        if isinstance(item, SourceItem | ChatItem):
            return item
        form = self.format_for(item)
        if form is None:
            raise InputError(
                f"{item.source_location or 'the item'} is a {type(item).__name__}, and the task "
                "has no format to write it; give a SourceItem or a ChatItem, or set task.format."
            )
        return form.item(item)

    def text_of(self, item: Writable) -> str:
        """What is read of an item: its prefix and its source."""
        if isinstance(item, ChatItem):
            return item.source
        prefix = item.prefix
        if prefix is None:
            form = self.format_for(item)
            writes = form is not None and form.item_type is WritingItem
            prefix = form.begins if form and writes else self.prefix
        return prefix + item.source

    def row_of(self, item: Item, reading: RowSettings, *, answer: bool = True) -> TokenRow:
        """The tokens of an item, with those of its target if it has one and `answer`."""
        asked = self.as_asked(item)
        return self.rows.row(asked, self.text_of(asked), reading, answer=answer)

    def windows_of(
        self, items: Sequence[Item], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """One window for each item: all it reads and all it is to write."""
        reading = RowSettings(tokenizer, self.lengths, max_length)
        windows = []
        for number, item in enumerate(items):
            row = self.row_of(item, reading)
            wanted = np.flatnonzero(row.is_target)
            windows.append(TokenWindow(number, row.encoded(), 0, 0, len(row.ids), wanted))
        return windows

    def targets(self, item: Item, windows: Sequence[TokenWindow]) -> list[Target]:
        """The tokens to write, -1 for those that are read."""
        _check_target(self.as_asked(item), "a model learns from what is right")
        targets = []
        for window in windows:
            ids = np.array(window.encoded.ids, np.int64)
            tokens = np.full(len(ids), -1, np.int64)
            tokens[window.wanted] = ids[window.wanted]
            targets.append(Target(tokens=tokens))
        return targets

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Parts what is read from the tokens of the targets."""
        tokens = builder.clean.token_labels
        assert tokens is not None
        builder.targets[self.name] = self.rows.collate(builder, tokens, source)

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """What each token of the targets is named from, (n, W)."""
        return self.rows.vectors(model, tensors, tensors.targets[self.name], read)

    def generation(
        self, model: Model, tokenizer: Tokenizer, items: Sequence[Item], max_length: int | None
    ) -> GenerationRequest:
        """A prompt for every item, which is answered token by token."""
        self.check(model.blueprint)
        apart, reading = self.between is None, self._reading(tokenizer, max_length)
        asked = [self.as_asked(item) for item in items]
        rows = [self.row_of(item, reading, answer=False) for item in asked]
        ends = self._ends(asked, reading)
        prompts = []
        for item, row, location in zip(asked, rows, ItemLocations(asked), strict=True):
            room = self._room(row, max_length, location)
            end = ends[isinstance(item, ChatItem)]
            prompts.append(EncodedPrompt(row.ids, room, end, (), location))

        def read(number: int, texts: list[Written]) -> Composed:
            best = texts[0]
            text = self.decoded(tokenizer, best.tokens, prompts[number].ends)
            form = self.format_for(asked[number])
            label = text if form is None else form.read(text)
            score = math.exp(sum(best.logs) / len(best.logs)) if best.logs else 1.0
            return Composed(text, score, label, best.finish_reason == "end", rows[number].cut)

        start = Vocabularies.of(tokenizer).start() if apart else None
        return GenerationRequest(prompts, start, tokenizer.size, self.writing.search(), read)

    def _reading(self, tokenizer: Tokenizer, max_length: int | None) -> RowSettings:
        """How prompts are read; where they may be cut, what is written keeps its room."""
        if self.between is not None and self.lengths.cut and max_length is not None:
            max_length = max(max_length - (self.writing.max_new_tokens or USUAL), 1) + 1
        return RowSettings(tokenizer, self.lengths, max_length)

    def _room(self, row: TokenRow, max_length: int | None, source_location: str) -> int:
        """How many tokens may be written after a prompt."""
        wanted = self.writing.max_new_tokens or USUAL
        if self.between is None or max_length is None:
            return wanted
        room = min(wanted, max_length - len(row.ids))
        if room < 1:
            raise InputError(
                f"{source_location} has {len(row.ids):,} tokens; the model takes {max_length:,}, "
                "and what it writes counts too; shorten it."
            )
        return room

    def _ends(
        self, items: Sequence[Writable], reading: RowSettings
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens that end what is written, for texts and for chats."""
        plain = (reading.end,)
        if self.between is None or not any(isinstance(item, ChatItem) for item in items):
            return plain, plain
        return plain, tuple(sorted({*plain, chat_end(reading)}))

    def decoded(self, tokenizer: Tokenizer, ids: Sequence[int], ends: Sequence[int] = ()) -> str:
        """The text of what was written, without its end."""
        text = list(ids)
        while text and text[-1] in (*ends, tokenizer.last_id):
            text.pop()
        return tokenizer.decode(text)

    def baseline(self, train: Sequence[Any], dev: Sequence[Any]) -> tuple[str, list[Composed]]:
        """The most frequent target of each task; of a task that is not known, of all."""
        counts: dict[str, Counter[str]] = {}
        for item in train:
            counts.setdefault(item.task, Counter())[item.target] += 1
        usual = {task: targets.most_common(1)[0][0] for task, targets in counts.items()}
        rest = sum(counts.values(), Counter[str]()).most_common(1)[0][0]
        predictions = [Composed(usual.get(item.task, rest), 1.0) for item in dev]
        return "always writing the most frequent target of the training data", predictions

    def details(
        self, items: Sequence[Any], answers: Sequence[Composed], measured: Measured
    ) -> list[Detail]:
        """What decides in each of several tasks, and some texts with their targets."""
        details: list[Detail] = []
        tasks = [item.task for item in items]
        if len(set(tasks)) > 1:
            values = [name.rpartition(" ") for name in measured.values if " " in name]
            rows = tuple(
                (task, name, f"{measured.values[f'{task} {name}']:.3f}", f"{tasks.count(task):,}")
                for task, _, name in values
            )
            details.append(DetailTable(("task", "metric", "value", "items"), rows))
        chosen = np.linspace(0, len(items) - 1, min(_SHOWN, len(items))).astype(int).tolist()
        columns = ([items[n].texts[0], items[n].target or "", answers[n].text] for n in chosen)
        texts = tuple(tuple(map(shortened, each)) for each in columns)
        return [*details, DetailTable(("source", "target", "predicted"), texts, numbers=False)]

    def mistakes(self, items: Sequence[Any], answers: Sequence[Composed]) -> list[Mistake]:
        """Texts that are not written to the letter, by how much of them is right."""
        mistakes = []
        for item, answer in zip(items, answers, strict=True):
            asked = self.as_asked(item)
            right = [asked.target or "", *getattr(asked, "others", ())]
            if answer.text.strip() in (text.strip() for text in right):
                continue
            texts = (marked(self.text_of(asked)),)
            kind, gold = self._kind_of_mistake(asked, answer, right), " | ".join(right)
            mistakes.append(Mistake.of(item, kind, gold, answer.text, answer.score, texts=texts))
        return mistakes

    def _kind_of_mistake(self, asked: Writable, answer: Composed, right: Sequence[str]) -> str:
        form = self.format_for(asked)
        if form is not None and form.words:
            if answer.label is None:
                return "not a word of the format"
            return f"{answer.label} instead of {right[0]}"
        if not answer.ended:
            return "no end"
        from clozeworks.tasks.metrics.written import likeness

        alike = max(likeness(text, answer.text) for text in right)
        return "mostly right" if alike >= 0.5 else "partly right" if alike else "nothing right"

    def from_input(self, item: Any) -> Any:
        """A bare text as the model's format takes it."""
        bare = isinstance(item, SourceItem) and item.prefix is None and item.target is None
        return self.item_of(item.source, item.source_location) if bare else item

    def shown(self, item: Any, answer: Composed, top: int = 1) -> ShownPrediction:
        """The text that was written, as a whole."""
        return ShownPrediction(marked=marked(answer.text), whole=True)

    def reading_notes(self, answers: Sequence[Any]) -> list[str]:
        """How texts were generated, and what was cut or had no end, in sentences."""
        total = f"{len(answers):,} items of the dev set"
        cut = sum(answer.cut for answer in answers)
        endless = sum(not answer.ended for answer in answers)
        beams, max_length = self.writing.num_beams, self.writing.max_new_tokens or 0
        how = f"beam search with {beams} beams" if beams > 1 else "greedy decoding"
        sentences = [f"Texts are generated by {how}, up to {max_length:,} tokens."]
        sentences.append(f"{cut:,} of {total} were cut." if cut else "No input was cut.")
        if endless:
            sentences.append(f"{endless:,} of {total} reached that length before their end.")
        return sentences

    def usage(self, *, chats: bool = False) -> str:
        """How texts are written; chats as their template has them."""
        if not chats:
            return self.python_usage
        return f'output = model.generate("a text", chat=True, {self._generation_options()})'

    def _generation_options(self) -> str:
        writing = self.writing
        options = f"max_new_tokens={writing.max_new_tokens}"
        if writing.num_beams == 1:
            return options
        return f"{options}, num_beams={writing.num_beams}, length_penalty={writing.length_penalty}"

    def transformers_usage(self, *, chats: bool = False) -> str | None:
        """How transformers writes the same."""
        kind = "Seq2SeqLM" if self.between is None else "CausalLM"
        read, template = repr(f"{self.prefix}a text{self.between or ''}"), ""
        if chats:
            template = (
                'messages = [{"role": "user", "content": "a text"}]\n'
                "prompt = tokenizer.apply_chat_template("
                "messages, tokenize=False, add_generation_prompt=True)\n"
            )
            # In one tower a template writes its own special tokens; an encoder is shown its end.
            read = "prompt" if self.between is None else "prompt, add_special_tokens=False"
        first = 'inputs["input_ids"].shape[1]' if self.between is not None else "0"
        return (
            f"from transformers import AutoModelFor{kind}, AutoTokenizer\n\n"
            'tokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
            f'model = AutoModelFor{kind}.from_pretrained("FOLDER")\n'
            f'{template}inputs = tokenizer({read}, return_tensors="pt")\n'
            f"outputs = model.generate(**inputs, {self._generation_options()})\n"
            f"text = tokenizer.decode(outputs[0, {first}:], skip_special_tokens=True)"
        )

    def measure(
        self, items: Sequence[Item], answers: Sequence[Composed], *, intervals: bool = False
    ) -> Measured:
        """How good what was written is: by the words of a format, or as text."""
        from clozeworks.tasks.metrics.written import measure_tasks

        asked = [self.as_asked(item) for item in items]
        for item in asked:
            _check_target(item, "what is written is compared with it")
        forms = [self.format_for(item) for item in asked]
        texts = [answer.text for answer in answers]
        return measure_tasks(asked, texts, forms, metric=self.metric, intervals=intervals)


def _check_target(item: Writable, why: str) -> None:
    if item.target is None:
        where = item.source_location or "the item"
        raise InputError(f"{where} has no target; {why}; give it one.")
