"""Definitions of queues, aliases, templates, topics, subscriptions and links."""
