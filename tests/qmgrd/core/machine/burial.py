"""Parked groups in the model. All messages of a group become dead letters, one after another."""

from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.group import Burial, numbers
from tests.qmgrd.core.machine.how import How
from tests.qmgrd.core.machine.message import Message
from tests.qmgrd.core.machine.model import Model

LEASED_MS, NO_PLACE_MS = 1_000, 10_000  # milliseconds until the next attempt
SKIPPED = How("", False, False, reason="skipped", text="by an operator")


def end_groups(model: Model) -> None:
    """Turns the messages of complete or closed parked groups into dead letters."""
    groups = model.groups
    groups.rest(model.messages)  # Groups leave one turn later, when ended groups are forgotten.
    for key, group in groups.known.items():
        there = len(group.left) + len(numbers(model.messages, *key))
        is_rest_here = 0 < group.last == there
        if group.parked and (is_rest_here or group.is_closed):
            groups.burials.setdefault(key, Burial())
    for key, burial in list(groups.burials.items()):
        while burial.wake_ms <= model.now_ms and not _end(model, key, burial):
            burial.cursor = 0  # More messages with lower numbers have arrived.


def _end(model: Model, key: tuple[str, bytes], burial: Burial) -> bool:
    """Turns a group's messages into dead letters, in order; returns whether to stop for now."""
    groups, group = model.groups, model.groups.known.get(key)
    if group is None or not group.parked:
        del groups.burials[key]
        return True
    for number in sorted(numbers(model.messages, *key)):
        if number < burial.cursor:
            continue
        message = groups.member(model.messages, *key, number)
        if message.lease is not None:
            burial.wake_ms = model.now_ms + LEASED_MS
            return True
        code = group.parked.get(number, ErrorCode.GROUP_FAILED)
        to = model.bury(message, code, How("", False, False), burial.to)
        burial.to = to or burial.to
        if not to:
            burial.wake_ms = model.now_ms + NO_PLACE_MS
            return True
        if len(group.parked) > 1 and number in group.parked:
            _doubt(model, message, code)
        burial.cursor = number + 1
    if numbers(model.messages, *key):
        return False
    del groups.burials[key]
    if group.is_closed:
        group.parked.clear()  # The daemon then refuses later puts.
    else:
        del groups.known[key]
    return True


def _doubt(model: Model, message: Message, code: int) -> None:
    """Accepts either code: if several messages failed in one step, any may have been the first."""
    for moved in model.messages:
        if moved.uid == message.uid:
            moved.codes = (code, ErrorCode.GROUP_FAILED)


def skip(model: Model, key: tuple[str, bytes], number: int) -> int:
    """Lets a group continue at *number* or at its next message; returns the error code, or 0."""
    group = model.groups.known[key]
    there, due = sorted(numbers(model.messages, *key)), group.done + 1
    behind = [x for x in there if x >= due]
    if not number and not behind:
        return ErrorCode.VALUE_INVALID
    number = number or (due + 1 if behind[0] == due else behind[0])
    if number <= due or 0 < group.last < number - 1:
        return ErrorCode.VALUE_INVALID
    if model.is_about_to_put(*key, group.done, number):
        return ErrorCode.DUPLICATE_UNCOMMITTED
    found = [model.groups.member(model.messages, *key, x) for x in behind if x < number]
    if any(x.lease is not None for x in found):
        return ErrorCode.GROUP_IN_USE
    for message in found:
        if not model.bury(message, ErrorCode.MESSAGE_REJECTED, SKIPPED):
            return ErrorCode.QUEUE_FULL
    group.give_up_to(number)
    if group.parked and min(group.parked) < number:
        group.parked.clear()
    return 0
