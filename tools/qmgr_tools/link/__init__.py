"""Commands on links to other queue managers."""
