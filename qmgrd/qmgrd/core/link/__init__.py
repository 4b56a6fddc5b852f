"""One link to another queue manager: its paths, its outbox, its inbox."""
