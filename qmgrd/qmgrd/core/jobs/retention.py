"""Every hour, forgets producers that have been unused for a long time."""

from collections.abc import Container

from qmgrd.core.context import producer
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, Job, JobStep
from qmgrd.core.jobs.slice import next_rows
from qmgrd.core.layout import keys

RETENTION_PERIOD_MS = 3_600_000


def step(context: Context, job: Job, in_use: Container[bytes], gone: list[bytes]) -> JobStep:
    """Forgets a slice of the unused producers, except those *in_use*. ``done`` is their number.

    Adds their ids to *gone*.
    """
    now_ms = context.now.ms
    limit_ms = context.config.producer.retention_ms
    found, last = next_rows(context, job, keys.SPACE_PRODUCER)
    for key, value in found:
        job.count("examined")
        use = producer.use_of(key, value)
        if use is None or use.used_ms + limit_ms >= now_ms:
            continue
        if key[keys.REST] not in in_use:
            context.tx.delete(key)
            job.count("done")
            gone.append(key[keys.REST])
    return DONE if last else MORE
