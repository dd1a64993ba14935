"""What an edit of a stack file does, and what only the switch allows."""
