"""Fine-tuning: labelled files, a task and a model put together."""
