"""Reusable Pulumi components: GPU node pools on clusters that already exist."""
