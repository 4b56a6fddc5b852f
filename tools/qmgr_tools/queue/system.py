"""The names of the reserved queues. Each queue is created when it is first used."""

PREFIX = "SYSTEM."
DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
AUDIT = "SYSTEM.AUDIT"
EVENTS = "SYSTEM.EVENTS"
AUDIT = "SYSTEM.AUDIT"  # Its attributes cannot be changed, so a definition cannot name it.
PUBLICATIONS = "SYSTEM.PUBLICATIONS"
QUEUES = (AUDIT, DEAD_LETTERS, EVENTS, PUBLICATIONS)
