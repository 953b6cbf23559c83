"""What a process has to work with: worker threads, memory, the speed of the machine."""
