"""What is known of GPUs, machines, charts and Kubernetes, as data with its sources."""
