"""What a model can be asked to do: one file per task.

The tasks and their items are also found here, as `cw.tasks.Classify` and `cw.tasks.TextItem`:

| task | its item |
|---|---|
| `Classify` | `TextItem` |
| `Compare` | `PairItem` |
| `Tag` | `WordsItem` |
| `Answer` | `QuestionItem` |
| `TextToText` | `SourceItem`, `ChatItem` |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clozeworks.tasks.answer import Answer as Answer
    from clozeworks.tasks.classify import Classify as Classify
    from clozeworks.tasks.classify import TextItem as TextItem
    from clozeworks.tasks.compare import Compare as Compare
    from clozeworks.tasks.compare import PairItem as PairItem
    from clozeworks.tasks.rerank.items import RerankItem as RerankItem
    from clozeworks.tasks.rerank.task import Rerank as Rerank
    from clozeworks.tasks.spans.questions import QuestionItem as QuestionItem
    from clozeworks.tasks.tag import Tag as Tag
    from clozeworks.tasks.tagging.items import WordsItem as WordsItem
    from clozeworks.tasks.task import Task as Task
    from clozeworks.tasks.text_to_text.items import ChatItem as ChatItem
    from clozeworks.tasks.text_to_text.items import SourceItem as SourceItem
    from clozeworks.tasks.text_to_text.task import TextToText as TextToText

# Where each name is.
_PLACES = {
    "Task": "task",
    "Classify": "classify",
    "TextItem": "classify",
    "Compare": "compare",
    "PairItem": "compare",
    "Rerank": "rerank.task",
    "RerankItem": "rerank.items",
    "Tag": "tag",
    "WordsItem": "tagging.items",
    "Answer": "answer",
    "QuestionItem": "spans.questions",
    "TextToText": "text_to_text.task",
    "SourceItem": "text_to_text.items",
    "ChatItem": "text_to_text.items",
}

__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
