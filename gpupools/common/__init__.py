"""What everything else speaks in: problems, strict models, taints, bounded YAML, and what is printed."""
