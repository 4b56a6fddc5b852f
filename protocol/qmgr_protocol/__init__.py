"""The wire protocol of qmgrd, without I/O: frames, records, messages, connections, windows."""
