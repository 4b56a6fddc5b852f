"""Tests of the client, with a scripted queue manager and with a real one."""
