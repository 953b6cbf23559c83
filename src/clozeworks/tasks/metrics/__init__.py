"""How good answers are: one file per kind of answer, all in the same form."""
