"""Files and folders written whole or not at all, and locked while they are in use."""
