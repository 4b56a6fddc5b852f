"""The daemon's sockets: sessions, listeners and links on the event loop.

* Connections: `listener.py` accepts them, `dialler.py` opens those of links. `session.py` passes
  bytes between a socket and its core.peer.Peer. `other_protocol.py` answers HTTP and TLS.
* Limits: `connection_limits.py` admits connections, `quarantine.py` refuses peers that caused an
  internal error. `large_frames.py` limits incomplete frames, `unsent.py` unread replies, and
  `log_limit.py` log entries.
"""
