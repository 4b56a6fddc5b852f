"""Tests of the client, against a scripted queue manager and against a real one."""
