"""What becomes of a pool: the contract of a cloud, the plan, and what its nodes offer."""
