"""What operators see: logs, metrics and health."""
