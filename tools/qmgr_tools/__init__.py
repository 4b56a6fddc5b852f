"""The command line qmctl."""
