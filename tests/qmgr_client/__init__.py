"""The client: its core against a queue manager that is told what to say, and against a real one."""
