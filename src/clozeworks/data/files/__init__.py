"""Reading files of every format: discovery, encodings, compression, columns."""
