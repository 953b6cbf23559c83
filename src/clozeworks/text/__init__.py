"""Text to token ids and back, on the Rust `tokenizers` library."""
