"""How results are shown in a terminal."""
