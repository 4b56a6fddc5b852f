"""Reads the definitions from the store at the start: templates, topics, queues and links.

If the checksum of a row is wrong, the store is damaged, and the start fails. A row that is invalid
or contradicts another row is set aside (aside.py). The start continues without this row.
"""

from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import RequestError
from qmgrd.core.access.users import Users
from qmgrd.core.catalogue import route, row_checks
from qmgrd.core.catalogue.boot import check_arrivals
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.link_definitions import LinkDefinitions
from qmgrd.core.catalogue.named import KINDS, Alias, ProxySubscription, Remote
from qmgrd.core.catalogue.templates import Template
from qmgrd.core.context.aside import has_definitions, queue_ids
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.kv import Transaction


def load(
    context: Context, catalogue: Catalogue, jobs: Jobs, users: Users, *, unclean: bool
) -> None:
    """Reads all definitions and the state of work.

    After an unclean stop, older messages count as maybe delivered.

    Raises:
        RowDamaged: The checksum of a row is wrong, or a row is missing and no row was set aside.
    """
    tx, aside = context.tx, context.aside
    aside.load(context)
    context.history.load(tx, context.now, lambda key: aside.guard(context, key))
    jobs.load()
    context.schedule.load(tx)
    context.peers.load(tx)
    users.load()
    for key, row in list(rows.scan(tx, keys.SPACE_TEMPLATE)):
        with aside.guard(context, key):
            pattern = key[keys.REST].decode()
            catalogue.templates.add(Template(pattern, row_checks.template(pattern, unpack(row))))
    catalogue.topics.load()
    uncounted = _load_queues(context, catalogue, unclean=unclean)
    _check_orphans(context, catalogue, jobs, uncounted)
    _load_links(context, catalogue)
    _check_leads(context, catalogue)
    _list_complete_groups(tx, catalogue, jobs)


def lose_volatile(context: Context, catalogue: Catalogue, jobs: Jobs) -> None:
    """Discards messages that are not persistent; jobs remove them from the store."""
    by_id = catalogue.by_id
    for job in jobs.running.values():
        swept = by_id.get(job.row["queue_id"]) if job.row["kind"] == "sweep" else None
        if swept is not None:  # Earlier losses stay lost, though they are still stored.
            swept.origins.born = max(swept.origins.born, job.row["before"])
            swept.groups.begin_sweep()
    for queue in by_id.values():
        if queue.is_publications:
            continue  # A publication is removed with its last reference.
        lost = queue.lose_volatile()
        if lost is not None:
            jobs.start("sweep", queue=queue.name, queue_id=queue.id, first=lost[0], before=lost[1])
            queue.groups.begin_sweep()
            queue.flush(context.tx)  # A crash may come before the next turn.
            context.totals.count(queue)


def start_work(context: Context, catalogue: Catalogue, jobs: Jobs) -> None:
    """Starts the links. In maintenance, jobs and links do nothing."""
    if context.is_maintenance:
        jobs.hold_back()
        return
    for link in catalogue.links.values():
        if not link.row["stopped"]:
            link.start()


def _list_complete_groups(tx: Transaction, catalogue: Catalogue, jobs: Jobs) -> None:
    """Starts jobs that list complete groups if an older version wrote the store. Runs only once."""
    if rows.find(tx, keys.LISTED) is not None:
        return
    for queue in catalogue.by_id.values():
        if queue.counters.grouped:
            jobs.watch_groups(queue)
    rows.put(tx, keys.LISTED, b"")


def _load_queues(
    context: Context, catalogue: Catalogue, *, unclean: bool
) -> dict[bytes, rows.RowMissing]:
    """Reads the definitions of queues. Returns, by key, the errors for queues without counters."""
    uncounted = {}
    next_id = int.from_bytes(rows.get(context.tx, keys.NEXT_QUEUE), "big")
    for key, row in list(rows.scan(context.tx, keys.SPACE_QUEUE)):
        with context.aside.guard(context, key):
            try:
                name = key[keys.REST].decode()
                _load_queue(context, catalogue, name, row, next_id, unclean=unclean)
            except rows.RowMissing as error:
                uncounted[key] = error
    return uncounted


def _load_queue(
    context: Context, catalogue: Catalogue, name: str, row: bytes, next_id: int, *, unclean: bool
) -> None:
    facts = row_checks.queue(name, unpack(row), next_id)
    if facts["kind"] not in KINDS:
        queue_id = facts["queue_id"]
        other = catalogue.by_id.get(queue_id)
        if other is not None:
            raise ValueError(f"queue {other.name} has the same id, {queue_id}")
        counters = Counters.read(context.tx, queue_id, name)
        row_checks.counters(counters)
        check_arrivals(context.tx, name, queue_id, counters.next_arrival)
    catalogue.add_queue(name, facts, unclean=unclean)


def _check_orphans(
    context: Context, catalogue: Catalogue, jobs: Jobs, uncounted: dict[bytes, rows.RowMissing]
) -> None:
    """Sets aside rows whose definition is set aside, and jobs that would remove a defined queue.

    If no definition was set aside, a row is missing from the store.
    """
    tx, aside = context.tx, context.aside
    for job in list(jobs.running.values()):
        queue = catalogue.by_id.get(job.row["queue_id"])
        if job.row["kind"] == "drop" and queue is not None:
            why = f"the job removes queue {queue.name}, which is still defined"
            aside.move(context, "row", keys.job(job.id), why)
            jobs.forget(job)
    next_id = int.from_bytes(rows.get(tx, keys.NEXT_QUEUE), "big")
    known = catalogue.by_id.keys() | jobs.dropped() | queue_ids(aside)
    space = keys.SPACE_COUNTERS
    ids = {
        int.from_bytes(key[keys.REST], "big"): key for key, _ in tx.scan(space, keys.after(space))
    }
    orphans = {queue_id: key for queue_id, key in ids.items() if queue_id not in known}
    for key, error in uncounted.items():
        if not orphans:
            raise error
        aside.move(context, "row", key, "no counters exist for its queue id")
    for queue_id, key in orphans.items():
        if 0 < queue_id < next_id and not has_definitions(aside):
            raise rows.RowDamaged(f"the definition of queue id {queue_id}", "it is missing")
        aside.move(context, "row", key, "no queue with this id is defined")


def _load_links(context: Context, catalogue: Catalogue) -> None:
    definitions = LinkDefinitions(context, catalogue)
    for key, row in list(rows.scan(context.tx, keys.SPACE_LINK)):
        with context.aside.guard(context, key):
            name = key[keys.REST].decode()
            facts = row_checks.link(name, unpack(row))
            queue = catalogue.by_id.get(facts["queue_id"])
            if queue is None or queue.name != f"@{name}":
                raise ValueError(f"its queue (id {facts['queue_id']}) does not exist")
            definitions.load(name, facts)


def _check_leads(context: Context, catalogue: Catalogue) -> None:
    """Sets aside definitions without a valid target, because they would make every list of queues
    fail.
    """
    for name, found in list(catalogue.queues.items()):
        why = ""
        if isinstance(found, Alias) and isinstance(catalogue.queues.get(found.target), Alias):
            why = f"the definition is an alias of {found.target}, which is itself an alias"
        elif name.startswith("@") and name[1:] not in catalogue.links:
            why = f"link {name[1:]} does not exist"
            if not has_definitions(context.aside):
                raise rows.RowDamaged(f"the definition of link {name[1:]}", "it is missing")
        elif isinstance(found, Remote | ProxySubscription):
            try:
                route.link_to(catalogue, found.manager)
            except RequestError as error:
                why = error.text
        if why:
            context.aside.move(context, "row", keys.SPACE_QUEUE + name.encode(), why)
            catalogue.remove_queue(name)
