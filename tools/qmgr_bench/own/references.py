"""The space that each further subscription takes in the store, per publication.

Each store holds the same publications, and none is consumed. The store is examined on disk after
its daemon has stopped. The figures are its keys and values, LMDB's overhead per entry, and its
pages.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qmgr_bench.host import POLL_S, Host
from qmgr_bench.own.crowd import DESTINATION, subscribe
from qmgr_bench.own.traffic import pour, sender_on
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgrd.store.lmdb_store import LmdbStore

SUBSCRIPTIONS = 50
PUBLICATIONS = 2_000
NODE_BYTES = 10  # LMDB's overhead per entry: 8 bytes before the key, 2 for its position in the page
_MAP_BYTES = 1 << 36


class Held(NamedTuple):
    """The content of a store."""

    entries: int
    content_bytes: int  # size of keys and values in bytes
    page_bytes: int  # size of used pages in bytes


@dataclass(frozen=True, slots=True)
class References:
    """The space that another subscription takes in the store, per publication."""

    subscriptions: int  # number of subscriptions of the first store; the second has twice as many
    publications: int
    entries: float
    content_bytes: float
    bytes: float  # size of the content in bytes, with LMDB's overhead per entry
    page_bytes: float
    publication_bytes: float  # keys and values of the publication itself


def references(setting: Setting) -> References:
    """Publishes the same messages to n and to 2 n subscriptions, and examines both stores."""
    publications, count = setting.scaled(PUBLICATIONS), SUBSCRIPTIONS
    none, once, twice = (
        filled(setting, publications, subscriptions) for subscriptions in (1, count, 2 * count)
    )
    more = publications * count
    content = (twice.content_bytes - once.content_bytes) / more
    entries = (twice.entries - once.entries) / more
    return References(
        count,
        publications,
        round(entries, 3),
        round(content, 2),
        round(content + NODE_BYTES * entries, 2),
        round((twice.page_bytes - once.page_bytes) / more, 2),
        round(none.content_bytes / publications - content, 1),
    )


def filled(setting: Setting, publications: int, subscriptions: int) -> Held:
    """Returns the content of a new store with *publications* for *subscriptions*."""
    directory = setting.directory / f"references{subscriptions}"
    with Host(directory) as host:
        names = subscribe(host, subscriptions)
        with Wire(host.address, "bench.publisher") as wire:
            pour(sender_on(wire, DESTINATION), publications, "TOPIC: publishing", setting.say)
        with Wire(host.address, "bench.control") as wire:
            while any(wire.ask(m.QueueShow, name)["depth"] < publications for name in names):
                time.sleep(POLL_S)
    return held(directory)


def held(directory: Path) -> Held:
    """Returns the content of the store in *directory*. No daemon may use the store."""
    store = LmdbStore(directory, _MAP_BYTES)
    try:
        sizes = [len(key) + len(value) for key, value in store.begin().scan(b"", b"\xff")]
        return Held(len(sizes), sum(sizes), store.space().used_bytes)
    finally:
        store.close()
