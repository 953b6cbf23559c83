"""The task that writes a text for a text."""

from clozeworks.tasks.text_to_text.task import TextToText as TextToText
