"""What is masked, what is predicted, and the loss: one file per objective.

| the data I have | what the model should learn | objective |
|---|---|---|
| any text | words from both sides | `MaskedLM` |
| any text | the same, with positions in the text that only the end knows | `DecodedLM` |
| documents of sentences | and whether two texts belong together | `Sum` of it and `NextSentence` |
| documents of sentences | and which of two texts comes first | `Sum` of it and `SentenceOrder` |
| any text | and what a span says from its two ends | `Sum` of it and `SpanBoundary` |
| any text | which tokens do not belong | `ReplacedTokens`, with a generator beside the model |
| sentences, or pairs and triplets of texts | vectors that can be compared | `Contrastive` |

Every file opens with a card: paper, data, what is masked and predicted, loss, relations to the
others, an example. `objective.py` says what an objective is, `batch.py` what a batch is,
`core/loss.py` what a loss is, `noise/` how tokens are masked.
"""
