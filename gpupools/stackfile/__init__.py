"""One environment: its stack file, its clusters and pools together, and what is wrong with them."""
