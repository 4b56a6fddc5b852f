"""Contexts: named queue managers that `qmctl` can work on."""
