"""How results and progress are shown: in a terminal, in a notebook, in plain lines."""
