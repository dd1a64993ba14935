"""What a reader may write about pools and clusters."""
