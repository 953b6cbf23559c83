"""Neural parts: small modules, and beside each its spec. No family names, no file access."""
