"""The daemon as a process: log, descriptors, service manager, garbage collector."""
