"""Shared basics: problems, strict models, taints, CSV tables and YAML with limits."""
