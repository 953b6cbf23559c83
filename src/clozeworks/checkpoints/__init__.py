"""Model folders in the Hugging Face layout: reading, writing, reporting, fetching."""
