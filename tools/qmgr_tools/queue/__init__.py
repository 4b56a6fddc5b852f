"""Commands on queues and templates, and commands that move messages between queues."""
