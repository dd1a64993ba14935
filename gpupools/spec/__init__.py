"""Models of what a stack file may contain about clusters and pools."""
