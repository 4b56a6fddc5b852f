"""The welcome of the daemon: its name, its software and its limits."""

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.version import VERSION
from qmgrd.core.catalogue.boot import Boot
from qmgrd.core.sessions.incoming_bodies import PIECE_BYTES

SOFTWARE = f"qmgrd/{VERSION}"


def welcome_of(config: Config, boot: Boot) -> m.Welcome:
    """Returns the welcome for all connections since *boot*, without a session."""
    limits = config.limits
    return m.Welcome(
        m.VERSION,
        config.queue_manager.name,
        boot.store_id,
        boot.number,
        [],
        SOFTWARE,
        limits.frame_max_bytes,
        limits.message_max_bytes,
        limits.put_window_messages,
        limits.put_window_bytes,
        limits.request_window,
        limits.heartbeat_ms,
        limits.liveness_ms,
        piece_max_bytes=PIECE_BYTES,
    )
