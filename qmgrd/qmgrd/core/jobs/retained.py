"""Sends the last retained publication of each matching topic to a new subscription.

Publications made after the subscription began reach it as usual. Therefore, a topic that has
retained a newer publication since then is skipped.
"""

from qmgr_protocol import topic as topics
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import CRAMPED_MS, Context
from qmgrd.core.jobs.job import DONE, MORE, SLICE_ROWS, Job, JobStep
from qmgrd.core.jobs.slice import next_rows
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.puts.fan_out import publication_of, put_publications
from qmgrd.core.returns.dead_letters import DeadLetters


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Sends a slice of the retained publications to a subscription."""
    subscription = catalogue.topics.subscriptions.get(job.row["queue"])
    queue = catalogue.by_id.get(job.row["queue_id"])
    if subscription is None or queue is None or subscription.queue is not queue:
        return DONE  # The subscription ended while the job ran.
    if context.is_cramped:
        return JobStep("waiting", "the store is nearly full", context.now.ms + CRAMPED_MS)
    if catalogue.topics.next_out < subscription.first:
        return MORE  # Older publications are not stored as retained yet.
    found, last = next_rows(context, job, prefix_of(subscription.filter))
    letters = DeadLetters(context, catalogue)
    before, rows_max = context.rows, min(SLICE_ROWS, context.slice_rows)
    for key, value in found:
        if context.rows - before >= rows_max:  # The selector is costly.
            job.row["cursor"] = key
            return MORE
        job.count("examined")
        if not topics.fits(
            subscription.filter, tuple(key[keys.REST].decode(errors="replace").split(topics.MARK))
        ):
            continue
        arrival = int.from_bytes(rows.unseal(key, value), "big")
        stored = context.tx.get(keys.publication(arrival))
        if arrival >= subscription.first or stored is None:
            continue
        publication = publication_of(context, arrival, stored)
        if publication is not None and 0 < publication.entry.expires_ms <= context.now.ms:
            context.tx.delete(key)  # The publication has expired for all subscriptions.
            catalogue.references.remove(arrival)
        elif publication is not None:
            put_publications(context, catalogue, letters, subscription, [publication], is_late=True)
            job.count("done")
    return DONE if last else MORE


def prefix_of(filter_: tuple[str, ...]) -> bytes:
    """Returns the prefix of the rows of retained publications that *filter_* may match."""
    known = []
    for level in filter_:
        if level in (topics.ONE, topics.MANY):
            break
        known.append(level)
    return keys.SPACE_RETAINED + topics.MARK.join(known).encode()
