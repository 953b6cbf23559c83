"""The quick way from raw text to ids: words that were seen before are remembered."""
