"""What is said of a queue or a link that does not exist here: how to make it, or what was meant."""

from collections.abc import Iterable

from qmgr_protocol import name as names
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.near import nearest


def no_queue(name: str, known: Iterable[str]) -> RequestError:
    """Return that there is no queue *name* among those that are *known*."""
    meant = nearest(name, known)
    target, manager = names.split(name)
    hint = f"did you mean {meant}? if not, create" if meant else "create"
    how = f"queue create {name}" if target else f"link create {manager} HOST:PORT"
    return RequestError(
        ErrorCode.QUEUE_UNKNOWN, f"queue {name} does not exist here; {hint} it with: qmctl {how}"
    )


def no_subscription(name: str) -> RequestError:
    """Return that there is no subscription *name*."""
    return RequestError(
        ErrorCode.SUBSCRIPTION_UNKNOWN,
        f"there is no subscription {name[:150]} here, or no longer; see: qmctl sub ls",
    )


def no_target(alias: str, target: str) -> RequestError:
    """Return that *alias* is one of a queue that is missing."""
    return RequestError(
        ErrorCode.QUEUE_UNKNOWN,
        f"{alias} is an alias of queue {target}, which does not exist here; create that with: "
        f"qmctl queue create {target}; or have the alias name another with: "
        f"qmctl queue alter {alias} --alias-of QUEUE",
    )


def no_link(name: str) -> RequestError:
    """Return that there is no link *name*."""
    return RequestError(
        ErrorCode.LINK_UNKNOWN,
        f"there is no link to {name}; create it with: qmctl link create {name} HOST:PORT",
    )


def no_template(pattern: str, known: Iterable[str]) -> RequestError:
    """Return that there is no template *pattern* among those that are *known*."""
    meant = nearest(pattern, known)
    hint = f"did you mean {meant}?" if meant else "see: qmctl template ls"
    return RequestError(ErrorCode.TEMPLATE_UNKNOWN, f"there is no template {pattern}; {hint}")
