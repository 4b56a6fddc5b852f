"""Commands on subscriptions."""
