"""Reports the failure that ends a daemon to the log and to the service manager."""

import structlog

from qmgrd.process.notify import Notifier
from qmgrd.store.lmdb_store import StoreReplaced
from qmgrd.store.log import Fenced

log = structlog.get_logger()


def report_failure(error: BaseException, notifier: Notifier) -> None:
    """Reports *error*. The process of a member that was fenced goes on, as a standby."""
    if isinstance(error, Fenced):
        log.warning("this member is not active any more", why=str(error))
        notifier.send(status=f"not active any more: {error}")
        return
    if isinstance(error, StoreReplaced):
        log.error("stopping: the store was taken away", error=str(error))
    else:
        log.error("stopping: stored data is intact; start the daemon again", error=str(error))
    notifier.send("STOPPING=1", status=f"failed: {error}")
