"""Jobs: long work on queues, done in slices that survive a restart."""
