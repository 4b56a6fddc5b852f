"""The daemon's sockets: sessions, listeners and links on the event loop."""
