"""One file per published family: config, blueprint, weight names, tokenizer style, sizes."""
