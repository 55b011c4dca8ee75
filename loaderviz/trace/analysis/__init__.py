"""What a trace says: steps, waits and ranks in numbers."""
