"""Sentence embeddings: texts become vectors that can be compared."""

from clozeworks.tasks.embed.task import Embed as Embed
