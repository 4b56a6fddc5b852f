"""Handles operators' requests about jobs: starts purges and moves, shows jobs, cancels jobs."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.missing import put_to_subscription_error
from qmgrd.core.catalogue.named import ProxySubscription
from qmgrd.core.catalogue.system import (
    ATTRIBUTES,
    PUBLICATIONS,
    check_unlocked,
    put_to_system_queue_error,
)
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import Selection, selection
from qmgrd.core.sessions.session import Session


class JobAdmin:
    """Handles requests about jobs. Holds no state."""

    def __init__(self, context: Context, catalogue: Catalogue, jobs: Jobs) -> None:
        self._context = context
        self._catalogue = catalogue
        self._jobs = jobs

    def queue_purge(self, session: Session, message: m.QueuePurge) -> None:
        """Removes all current messages that are not leased. Replies when the job is done."""
        queue, wanted = self._source(session, message, "a purge would leave gaps")
        check_unlocked(queue.name, "purge")
        job = self._jobs.start(
            "purge",
            user=session.owner,
            **_facts(queue, queue.counters.delayed),
            where=message.where,
            messages_max=message.messages_max,
        )
        job.wanted = wanted
        job.waiting = (session.connection, message.request_id)

    def queue_move(self, session: Session, message: m.QueueMove) -> None:
        """Starts to move or copy all current messages that are not leased."""
        queue, wanted = self._source(session, message, "a move would leave gaps")
        kind = "copy" if message.copy else "move" if message.target else "retry"
        if kind != "copy":
            check_unlocked(queue.name, "move messages from")
        if message.copy and not message.target:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                "a copy needs a target: give one, or move dead letters back instead",
            )
        if message.target:
            self._check_target(queue, message.target)
        job = self._jobs.start(
            kind,
            user=session.owner,
            **_facts(queue),
            target=message.target,
            where=message.where,
            messages_max=message.messages_max,
            rate=message.rate,
            retries_max=message.retries_max,
        )
        job.wanted = wanted
        self._context.reply(session.connection, message.request_id, job.describe())

    def job_list(self, session: Session, message: m.JobList) -> None:
        """Lists the jobs in the order in which they started."""
        found = [job.describe_short() for job in self._jobs.all()]
        self._context.count_read(len(found), 0)
        self._context.reply(session.connection, message.request_id, {"jobs": found})

    def job_show(self, session: Session, message: m.JobShow) -> None:
        """Shows a job."""
        self._context.reply(
            session.connection, message.request_id, self._jobs.find(message.job).describe()
        )

    def job_cancel(self, session: Session, message: m.JobCancel) -> None:
        """Ends a job without undoing its work."""
        self._context.reply(
            session.connection, message.request_id, self._jobs.cancel(message.job).describe()
        )

    def _source(
        self, session: Session, message: m.QueuePurge | m.QueueMove, why: str
    ) -> tuple[Queue, Selection]:
        """Returns the source queue, and the selection of its messages.

        Raises:
            RequestError: The queue cannot have such a job, the selector is not valid, or too many
                jobs are running.
        """
        queue = self._catalogue.local(message.queue, gets=False)
        if queue.is_transmission:
            raise (
                publications_queue_error(message.queue)
                if queue.is_publications
                else transmission_source_error(message.queue, why)
            )
        wanted = selection(queue, message.where, b"", b"")
        self._jobs.check_room(session.owner)
        return queue, wanted

    def _check_target(self, source: Queue, name: str) -> None:
        """Raises RequestError for an invalid target. A job waits if its target is full or
        inhibited.
        """
        found = self._catalogue.find(name)
        if isinstance(found, ProxySubscription) or name == PUBLICATIONS:
            raise put_to_subscription_error(name)
        if isinstance(found, Queue) and found.references is not None:
            raise put_to_subscription_error(name)
        if isinstance(found, Queue) and found.is_transmission:
            raise transmission_target_error(name)
        if isinstance(found, Queue) and found.name in ATTRIBUTES:
            raise put_to_system_queue_error(name, found.name)
        if found is source:
            raise same_queue_error(name, source.name)


def publications_queue_error(name: str) -> RequestError:
    """Returns the error for a job on the queue *name*, which stores publications."""
    return RequestError(
        ErrorCode.QUEUE_IS_TRANSMISSION,
        f"{name} stores the messages of subscriptions: purge, move or delete those "
        "subscriptions instead",
    )


def transmission_source_error(name: str, why: str) -> RequestError:
    """Returns the error for a job that would remove messages from a transmission queue."""
    return RequestError(
        ErrorCode.QUEUE_IS_TRANSMISSION,
        f"{name} is a transmission queue: its messages are numbered, so {why}; "
        f"delete the link and its messages instead",
    )


def transmission_target_error(name: str) -> RequestError:
    """Returns the error for a job whose target is the transmission queue *name*."""
    return RequestError(
        ErrorCode.QUEUE_IS_TRANSMISSION,
        f"{name} is a transmission queue; name a remote queue, such as QUEUE{name}",
    )


def same_queue_error(name: str, source: str) -> RequestError:
    """Returns the error for a job from *source* to the same queue, given as *name*."""
    return RequestError(
        ErrorCode.VALUE_INVALID, f"{name} is queue {source} itself; choose another target"
    )


def _facts(queue: Queue, delayed: int = 0) -> dict[str, Any]:
    """Returns the fields that a job on *queue* needs. The job ignores messages that arrive later.

    Args:
        delayed: The number of delayed messages that the job includes.
    """
    return {
        "queue": queue.name,
        "queue_id": queue.id,
        "before": queue.counters.next_arrival,
        "total": queue.counters.depth + delayed,
    }
