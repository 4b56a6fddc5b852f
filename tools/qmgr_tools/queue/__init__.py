"""Commands on queues, templates and backout queues, and moving messages between queues."""
