"""Effects of an edit of a stack file, and protection against deletion."""
