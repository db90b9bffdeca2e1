"""Which queue a Kubernetes Job enters. Pure."""
