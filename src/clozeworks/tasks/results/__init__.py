"""What a task has to show: details and mistakes as plain data, records of predictions."""
