"""What clients of other servers say, and how they are answered: a file or folder a dialect."""
