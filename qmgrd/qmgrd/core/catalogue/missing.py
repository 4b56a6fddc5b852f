"""Errors for names that do not exist or are of another kind. The errors suggest a similar name."""

from collections.abc import Iterable
from itertools import islice

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.near import LOOKED_AT_MAX, nearest


def unknown_queue_error(name: str, known: Iterable[str]) -> RequestError:
    """Returns the error for an unknown queue *name*. It suggests the closest *known* name."""
    similar = nearest(name, known)
    hint = f"did you mean {similar}? if not, create it" if similar else "create it"
    return RequestError(ErrorCode.QUEUE_UNKNOWN, f"queue {name} does not exist here; {hint}")


def unknown_subscription_error(name: str, known: Iterable[str]) -> RequestError:
    """Returns the error for an unknown subscription.

    It suggests the closest of the *known* names.
    """
    durable = (other for other in islice(known, LOOKED_AT_MAX) if ":" in other)
    similar = nearest(name, durable)
    hint = f"; did you mean {similar}?" if similar else ""
    return RequestError(
        ErrorCode.SUBSCRIPTION_UNKNOWN,
        f"subscription {name[:150]} does not exist here or has ended{hint}",
    )


def unknown_target_error(alias: str, target: str) -> RequestError:
    """Returns the error for an *alias* whose queue *target* does not exist."""
    return RequestError(
        ErrorCode.QUEUE_UNKNOWN,
        f"{alias} is an alias of queue {target}, which does not exist here; create that "
        "queue, or set another alias_of",
    )


def unknown_link_error(name: str, *, leads_here: bool = False) -> RequestError:
    """Returns the error for an unknown link *name*.

    Args:
        name: The name of the link.
        leads_here: Whether the queue manager *name* may open links to this one.
    """
    if leads_here:
        return RequestError(
            ErrorCode.LINK_UNKNOWN,
            f"no link to {name} exists here, but {name} may open links to this queue manager; "
            f"to end these links, disallow {name}",
        )
    return RequestError(ErrorCode.LINK_UNKNOWN, f"link {name} does not exist; create it")


def unknown_template_error(pattern: str, known: Iterable[str]) -> RequestError:
    """Returns the error for an unknown template.

    It suggests the closest of the *known* patterns.
    """
    similar = nearest(pattern, known)
    hint = f"; did you mean {similar}?" if similar else ""
    return RequestError(ErrorCode.TEMPLATE_UNKNOWN, f"template {pattern} does not exist{hint}")


def put_to_subscription_error(name: str) -> RequestError:
    """Returns the error for a put to the subscription *name*."""
    return RequestError(
        ErrorCode.QUEUE_IS_SUBSCRIPTION,
        f"{name} receives only publications: put to a topic such as /flights/JFK",
    )


def get_from_proxy_error(name: str, manager: str) -> RequestError:
    """Returns the error for a get from the proxy *name*, which stores nothing here."""
    return RequestError(
        ErrorCode.QUEUE_IS_REMOTE,
        f"{name} is a proxy: its publications go to the subscribers at {manager}",
    )
