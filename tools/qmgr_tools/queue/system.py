"""The names of the reserved queues. Each queue is created when it is first used."""

PREFIX = "SYSTEM."
DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
EVENTS = "SYSTEM.EVENTS"
AUDIT = "SYSTEM.AUDIT"  # Its attributes cannot be changed, so a definition cannot name it.
PUBLICATIONS = "SYSTEM.PUBLICATIONS"
QUEUES = (DEAD_LETTERS, EVENTS, PUBLICATIONS)
