"""Checks the puts of a linked queue manager against the rights of its user."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right
from qmgrd.core.catalogue import route
from qmgrd.core.puts import note_right, origin_right, report_right
from qmgrd.core.puts.report_right import Check


def checked(check: Check, put: m.Put, peer: str, own: str, foreign: RequestError | None) -> m.Put:
    """Returns *put* without reports that its sender may not put.

    Args:
        check: Raises the error if the user of the link lacks a right.
        put: The put.
        peer: The queue manager that sends it.
        own: The name of this queue manager.
        foreign: The result of origin_right.refusal() for *put*.

    Raises:
        RequestError: The error *foreign*, or SENDER_NOT_AUTHORIZED, with which the message becomes
            a dead letter. A message of another queue manager must not do so, because it could pass
            for the dead letter of that queue manager.
    """
    if foreign is not None:
        raise foreign
    check = report_right.once(check)
    try:
        check(Right.PUT, route.reached(put.queue, own))
        if onward := route.passed(put.queue, own):
            check(Right.PUT, onward)
    except RequestError:  # Its text may hide the queue from the user, but not from operators.
        raise RequestError(
            ErrorCode.SENDER_NOT_AUTHORIZED,
            f"the user of the link from {peer} lacks the right to put on {put.queue[:200]}",
        ) from None
    return put._replace(records=report_right.without_refused(check, put.records, peer))


def without_forged_notes(check: Check | None, put: m.Put, peer: str, own: str) -> m.Put:
    """Returns *put* without the facts in notes that its sender may not report."""
    if check is None or not put.extras:
        return put
    return put._replace(extras=note_right.without_refused(report_right.once(check), put, peer, own))


def lacking(check: Check | None, put: m.Put, peer: str, own: str) -> RequestError | None:
    """Returns the error if the sender of a *put* in a loop lacks a right, or None.

    A message that came back to the queue manager that created it needs no right to forward.
    """
    if check is None:
        return None

    def in_loop(right: Right, name: str) -> None:
        if (right, name) != (Right.FORWARD, own):
            check(right, name)

    try:
        checked(in_loop, put, peer, own, origin_right.refusal(in_loop, put.records, peer))
    except RequestError as error:  # The exemption must not allow a dead letter with a forged UID.
        return origin_right.refusal(check, put.records, peer) or error
    return None
