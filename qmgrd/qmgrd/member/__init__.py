"""A process of a queue manager whose journal is on a server: a standby, or the active member."""
