"""What the queue manager decides: pure, in one transaction, without I/O or clocks."""
