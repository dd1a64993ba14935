"""Output of the commands: text, JSON, tables, progress and colours, and what keeps their start fast."""
