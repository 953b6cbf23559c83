"""Reranking: a model reads a query and a document together and says how well they fit."""

from clozeworks.tasks.rerank.task import Rerank as Rerank
