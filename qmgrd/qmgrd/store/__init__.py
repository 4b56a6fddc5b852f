"""The LMDB store: ordered bytes, made durable once per turn."""
