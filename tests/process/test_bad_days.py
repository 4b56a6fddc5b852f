"""Tests of bad input and bad conditions on a real daemon. Each causes a clear, distinct error."""

import hashlib
import os
import random
import resource
import signal
import socket
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_protocol.frame import encode
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.process.daemon import Daemon, Wire

pytestmark = pytest.mark.process
ID = b"P" * 16
Make = Callable[..., Daemon]


def record(body: bytes, uid: tuple[str, int] | None = None) -> bytes:
    identity = None if uid is None else records.Uid(*uid)
    return records.encode(records.Fields(body, uid=identity))


def number_of(data: bytes) -> int:
    return int(records.decode(data).body.split(b":")[0])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Yields a daemon that bad input must not disturb."""
    daemon = Daemon(tmp_path_factory.mktemp("shared") / "data", listen={"tcp": ["127.0.0.1:0"]})
    try:
        daemon.start()
        with daemon.connect("setup") as wire:
            wire.ask(m.QueueCreate, "Q")
            wire.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
            wire.ask(m.QueueCreate, "NARROW", {"bytes_max": 1_024})
        yield daemon
        assert daemon.stop() == 0, daemon.said
        assert [x for x in daemon.log if x["level"] == "error"] == []
    finally:
        daemon.close()


# -- bad input


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (struct.pack(">I", (8 << 20) + 1), ErrorCode.FRAME_TOO_LARGE, "the limit of 8388608"),
        (struct.pack(">I", 2**32 - 1), ErrorCode.FRAME_TOO_LARGE, "frame of 4294967295 bytes"),
        (b"\0\0\0\0", ErrorCode.FRAME_MALFORMED, ""),
        (b"\0\0\0\1\xc1", ErrorCode.FRAME_MALFORMED, ""),
        (b"\0\0\0\1\x93", ErrorCode.FRAME_MALFORMED, ""),
        (encode(["text"]), ErrorCode.FRAME_MALFORMED, "operation number"),
        (encode([23, "one", "Q"]), ErrorCode.FIELD_INVALID, "Get.request_id: 'one'"),
        (encode([23, 1, 7]), ErrorCode.FIELD_INVALID, "Get.queue: 7"),
        (encode([23, 1, "Q", 1, -1]), ErrorCode.FIELD_INVALID, "Get.wait_ms: -1"),
        (encode([23, True, "Q"]), ErrorCode.FIELD_INVALID, "Get.request_id: True"),
        (encode([23, 1]), ErrorCode.FIELD_INVALID, "Get.queue: the field is missing"),
        (encode([40, 1, "x" * 5_000]), ErrorCode.FIELD_INVALID, "QueueCreate.queue"),
        (encode([1, "qmgr", 1, 1, "client", "again"]), ErrorCode.STATE_VIOLATION, "Hello"),
        (encode([6, 1, None]), ErrorCode.STATE_VIOLATION, "Ok"),
        (encode([60, 1, b"x" * 24, 1, 1]), ErrorCode.STATE_VIOLATION, "LinkOpen"),
        (encode([21, 9, 1, 0, "Q", []]), ErrorCode.STREAM_UNKNOWN, "stream 9 is not open"),
        (encode([20, 1, b"short"]), ErrorCode.FIELD_INVALID, "ProducerOpen.producer_id"),
    ],
)
def test_broken_protocol_is_reported_and_closes_only_that_connection(
    shared: Daemon, data: bytes, code: ErrorCode, words: str
) -> None:
    with shared.connect("bystander") as bystander:
        bad = shared.connect("bad")
        bad.write(data)
        goaway = bad.goodbye()
        assert (name_of(goaway.code), words in goaway.text) == (code.name, True), goaway
        assert bystander.ask(m.Status)["boot"] == 1


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", ErrorCode.FRAME_TOO_LARGE),
        (bytes.fromhex("16030102000100"), ErrorCode.FRAME_TOO_LARGE),
        (encode([80, 1]), ErrorCode.STATE_VIOLATION),
        (encode([199, 1]), ErrorCode.STATE_VIOLATION),
        (encode([1, "QMGR", 1, 1, "client", "a"]), ErrorCode.FIELD_INVALID),
        (encode([1, "qmgr", 2, 9, "client", "a"]), ErrorCode.VERSION_UNSUPPORTED),
        (encode([1, "qmgr", 1, 1, "root", "a"]), ErrorCode.FIELD_INVALID),
        (struct.pack(">I", 5_000), ErrorCode.FRAME_TOO_LARGE),
    ],
)
def test_invalid_hello_is_reported_and_closes_the_connection(
    shared: Daemon, hello: bytes, code: ErrorCode
) -> None:
    wire = Wire(shared.address)
    wire.write(hello)
    assert name_of(wire.goodbye().code) == code.name


def test_goodbye_reaches_a_client_that_is_still_sending(shared: Daemon) -> None:
    """The daemon refuses a frame of 64 MiB early, and the client still receives the reason."""
    bad = shared.connect("bad")
    bad.write(struct.pack(">I", 64 << 20))
    for _ in range(64):
        bad.write(bytes(1 << 16))
    assert bad.goodbye().code == ErrorCode.FRAME_TOO_LARGE


def test_random_bytes_disturb_no_other_client(shared: Daemon) -> None:
    rng = random.Random(59)
    with shared.connect("bystander") as bystander:
        for number in range(60):
            wire = Wire(shared.address) if number % 2 else shared.connect("bad")
            wire.write(rng.randbytes(rng.randrange(1, 3_000)))
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.socket.recv(1 << 16):
                pass
            wire.close()
        assert bystander.ask(m.Status)["boot"] == 1


def test_unknown_request_is_refused_and_the_connection_stays(shared: Daemon) -> None:
    with shared.connect() as wire:
        wire.write(encode([150, 7, "from the future"]))
        error = wire.next(m.Error)
        assert (error.request_id, error.code) == (7, ErrorCode.OPERATION_UNKNOWN)
        assert "operation 150 is unknown" in error.text
        wire.ask(m.Status)


@pytest.mark.parametrize("name", ["a/b", "a\0b", "%s%n%x", "x" * 300, "", "ü", "a\nb", "../../etc"])
@pytest.mark.parametrize("kind", [m.QueueCreate, m.QueueDelete, m.Get, m.QueuePurge])
def test_invalid_name_is_refused_and_the_connection_stays(
    shared: Daemon, kind: type[Any], name: str
) -> None:
    with shared.connect() as wire:
        with pytest.raises(RequestError, match="is not a valid name: use 1 to 64 of A-Z") as caught:
            wire.ask(kind, name)
        assert caught.value.code == ErrorCode.NAME_INVALID
        wire.ask(m.Status)


@pytest.mark.parametrize(
    ("kind", "fields", "code", "words"),
    [
        (m.QueueShow, ("NONE",), ErrorCode.QUEUE_UNKNOWN, "does not exist here; create it"),
        (m.QueueCreate, ("Q", {"depth_max": 1}), ErrorCode.QUEUE_EXISTS, "other attributes"),
        (m.QueueCreate, ("X", {"dept_max": 1}), ErrorCode.VALUE_INVALID, "did you mean depth_max"),
        (m.QueueCreate, ("X", {"depth_max": -1}), ErrorCode.VALUE_INVALID, "queue X: -1 is too"),
        (m.QueueCreate, ("X@NYC",), ErrorCode.LINK_UNKNOWN, "link NYC does not exist"),
        (m.LinkCreate, ("QM1", {"addresses": ["h:1"]}), ErrorCode.PEER_WRONG, "itself"),
        (m.LinkCreate, ("X", {"addresses": ["h"]}), ErrorCode.VALUE_INVALID, "'h' is not host"),
        (m.ProducerOpen, (b"?" * 16, True), ErrorCode.PRODUCER_UNKNOWN, "is unknown"),
        (m.Snapshot, ("relative",), ErrorCode.VALUE_INVALID, "neither an absolute path"),
    ],
)
def test_impossible_request_is_refused_and_the_connection_stays(
    shared: Daemon, kind: type[Any], fields: tuple[Any, ...], code: ErrorCode, words: str
) -> None:
    with shared.connect() as wire:
        with pytest.raises(RequestError) as caught:
            wire.ask(kind, *fields)
        assert (name_of(caught.value.code), words in caught.value.text) == (code.name, True)
        wire.ask(m.Status)


@pytest.mark.parametrize(
    ("queue", "data", "code", "words"),
    [
        ("NONE", record(b"x"), ErrorCode.QUEUE_UNKNOWN, "queue NONE does not exist here"),
        (
            "SMALL",
            record(b"x"),
            ErrorCode.QUEUE_FULL,
            "queue SMALL is full: it has 1 message, and the limit is 1",
        ),
        ("NARROW", record(bytes(1_024)), ErrorCode.QUEUE_BYTES_FULL, "exceed the limit of 1024"),
        ("Q", record(bytes(4 << 20)), ErrorCode.MESSAGE_TOO_LARGE, "the limit of 4194304"),
        ("Q", record(b"x")[:-1] + b"y", ErrorCode.CHECKSUM_MISMATCH, "checksum"),
        ("Q", b"short", ErrorCode.RECORD_MALFORMED, "a record of 5 bytes is too short for a head"),
        (
            "Q",
            records.stamp_encoded(record(b"x"), b"a b" + bytes(8)),
            ErrorCode.RECORD_MALFORMED,
            "the origin 'a b' is not a valid name",
        ),
        ("Q", record(b"x", ("QM1", 2**62)), ErrorCode.VALUE_INVALID, " us ahead of the clock"),
    ],
)
def test_put_that_cannot_be_stored_is_refused_alone(
    shared: Daemon, queue: str, data: bytes, code: ErrorCode, words: str
) -> None:
    with shared.connect() as wire:
        producer = wire.producer(random.Random(words).randbytes(16))
        producer.put("SMALL", record(b"fills it", ("A", 1)))
        ((_, found, text),) = producer.put(queue, data)
        assert (name_of(found), words in text) == (code.name, True), text
        assert producer.put("Q", record(b"good")) == []


def test_lease_of_another_client_cannot_be_acknowledged(shared: Daemon) -> None:
    with shared.connect("owner") as owner, shared.connect("thief") as thief:
        owner.ask(m.QueueCreate, "LEASED")
        owner.producer(b"L" * 16).put("LEASED", record(b"x"))
        (lease,) = owner.get("LEASED")
        guessed = (*lease[:3], lease[3] + 1, *lease[4:])
        ((_, index, code),) = thief.ack(guessed)
        assert (index, name_of(code)) == (0, "LEASE_LOST")
        assert owner.ack(lease) == []


def test_overdrawn_credit_ends_the_connection(shared: Daemon) -> None:
    bad = shared.connect("bad")
    stream = bad.ask(m.ProducerOpen, b"C" * 16)[0]
    bad.send(m.Put(stream, 1, 0, "Q", [record(b"x")] * 4_097))
    goaway = bad.goodbye()
    assert (name_of(goaway.code), goaway.text) == (
        "CREDIT_EXCEEDED",
        "4097 puts outstanding; the limit is 4096",
    )


# -- bad starts


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Returns the data file of a queue manager QM1 with some messages."""
    daemon = Daemon(tmp_path_factory.mktemp("sample") / "data")
    try:
        with daemon.start().connect() as wire:
            wire.ask(m.QueueCreate, "Q")
            wire.producer(ID).put("Q", *(record(bytes(2_000)) for _ in range(200)))
        assert daemon.stop() == 0
        return (daemon.data_dir / "store" / "data.mdb").read_bytes()
    finally:
        daemon.close()


def rewrite(file: Path, key: bytes, value: bytes, *, clear: bool = False) -> None:
    """Changes a row directly with LMDB."""
    env = lmdb.open(str(file.parent), map_size=1 << 28, max_dbs=0, lib_version=0)
    with env.begin(write=True) as txn:
        if clear:
            for old in list(txn.cursor().iternext(values=False)):
                txn.delete(old)
        txn.put(key, value)
    env.close()
    (file.parent / "lock.mdb").unlink()


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 & ~4095])


def truncate_in_meta(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def other_file(file: Path) -> None:
    file.write_bytes(b"SQLite format 3\0" + bytes(20_000))


def newer_lmdb(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for page in (0, 4_096):
        data[page + 20] = 3
    file.write_bytes(data)


def newer_format(file: Path) -> None:
    rewrite(file, keys.STORE, keys.STORE_ROW.pack(b"S" * 16, keys.FORMAT + 1, 1) + b"QM1")


def of_another(file: Path) -> None:
    row = keys.STORE_ROW.pack(b"S" * 16, keys.FORMAT, 1) + b"OTHER"
    rewrite(file, keys.STORE, rows.seal(keys.STORE, row))


def flip(file: Path, key: bytes, bit: int) -> None:
    """Flips a bit of a row, like a faulty disk."""
    with (
        lmdb.open(str(file.parent), map_size=1 << 28, max_dbs=0, lib_version=0) as env,
        env.begin() as txn,
    ):
        value = txn.get(key) or b""
    rewrite(file, key, (int.from_bytes(value, "big") ^ (1 << bit)).to_bytes(len(value), "big"))


def rotten_next_arrival(file: Path) -> None:
    """Damages the counters so that the next puts would replace messages."""
    flip(file, keys.of_queue(keys.SPACE_COUNTERS, 1), 8 * 8 * 13 + 8 * rows.SEAL_BYTES + 3)


def rotten_depth(file: Path) -> None:
    """Damages the counters so that messages would be hidden."""
    flip(file, keys.of_queue(keys.SPACE_COUNTERS, 1), 8 * 8 * 12 + 8 * rows.SEAL_BYTES + 3)


def rotten_queue(file: Path) -> None:
    flip(file, keys.SPACE_QUEUE + b"Q", 40)


def foreign(file: Path) -> None:
    rewrite(file, b"somebody", b"else", clear=True)


def rubbish_pages(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:8_192] + b"\xa5" * (len(data) - 8_192))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (truncate, "data.mdb: damaged: "),
        (truncate_in_meta, "data.mdb: damaged: the file ends in meta page 0"),
        (empty, "data.mdb: damaged: the file is empty"),
        (other_file, "data.mdb: not a qmgrd store"),
        (newer_lmdb, "data.mdb: LMDB format 3, but this qmgrd reads 1"),
        (
            newer_format,
            f"has format {keys.FORMAT + 1}, but this qmgrd reads {keys.FORMATS_READ_TEXT}",
        ),
        (of_another, "belongs to queue manager OTHER, but the configuration names QM1"),
        (foreign, "the store is not empty, and qmgrd did not create it"),
        (rubbish_pages, "it may be damaged"),
        (rotten_next_arrival, "the counters of queue Q (id 1): its checksum is wrong; restore"),
        (rotten_depth, "the counters of queue Q (id 1): its checksum is wrong; restore"),
        (rotten_queue, "the definition of queue Q: its checksum is wrong; restore"),
    ],
)
def test_unusable_store_is_refused_and_not_changed(
    make: Make, sample: bytes, harm: Callable[[Path], None], words: str
) -> None:
    daemon = make()
    file = daemon.data_dir / "store" / "data.mdb"
    file.parent.mkdir(parents=True)
    file.write_bytes(sample)
    harm(file)
    before = digest(file)
    assert daemon.launch().exit_code() == 3, daemon.said
    assert words in daemon.said
    assert digest(file) == before


def test_second_daemon_on_a_directory_is_refused_and_the_first_is_unharmed(make: Make) -> None:
    first, second = make().start(), make()
    with first.connect() as wire:
        assert second.launch().exit_code() == 3
        assert f"in use by another qmgrd (process {first.process.pid})" in second.said
        wire.ask(m.Status)


def test_port_in_use_is_reported(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        daemon = make(listen={"tcp": [address]})
        assert daemon.launch().exit_code() == 4
    assert (
        f"cannot listen on {address}: Address already in use: stop the program that uses it"
        in daemon.said
    )


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        ("limits", {"frame_max": 1}, "limits.frame_max: unknown key, did you mean limits.frame_"),
        ("listen", {"tcp": ["0.0.0.0:0"]}, "name the address in listen.tls instead"),
        ("queue_defaults", {"depth_max": -1}, "queue_defaults.depth_max: -1 is not positive"),
        ("queue_manager", {"name": "a/b"}, 'queue_manager.name: "a/b" is not a name'),
    ],
)
def test_invalid_configuration_is_reported_and_nothing_is_created(
    make: Make, section: str, values: dict[str, Any], words: str
) -> None:
    daemon = make(**{section: values})
    assert daemon.launch().exit_code() == 2
    assert words in daemon.said
    assert not daemon.data_dir.exists()


# -- the end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_in_good_order(make: Make, number: signal.Signals) -> None:
    daemon = make().start()
    wire, idle = daemon.connect(), daemon.connect("idle")
    wire.ask(m.QueueCreate, "Q")
    wire.producer(ID).put("Q", record(b"1"), record(b"2"))
    wire.get("Q")
    daemon.signal(number)
    for each in (wire, idle):
        assert name_of(each.goodbye().code) == "SHUTTING_DOWN"
    assert daemon.exit_code() == 0, daemon.said
    assert [x["event"] for x in daemon.log[-2:]] == ["stopping", "stopped"]
    with daemon.start().connect() as wire:
        assert [lease[6] for lease in wire.get("Q", 2)] == [m.STATE_REDELIVERED, 0]


def test_second_signal_stops_at_once(make: Make) -> None:
    """The second signal arrives while the first one waits for a client that reads nothing."""
    daemon = make().start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        producer = wire.producer(ID)
        for _ in range(16):
            producer.put("Q", record(bytes(1 << 20)))
        wire.send(m.Consume(1_000, "Q", 100, 1 << 30))
        wire.next(m.Deliver)
        daemon.signal(signal.SIGTERM)
        daemon.wait_for("stopping")
        daemon.signal(signal.SIGTERM)
        assert daemon.exit_code() == 1
        assert not daemon.find("stopped")
    with daemon.start().connect() as wire:
        assert wire.ask(m.QueueShow, "Q")["depth"] == 16


# -- kill -9


def test_table_of_origins_survives_a_kill_A15(make: Make) -> None:
    """A15: after a kill, a second put of number 500 is refused, and 1,001 takes the fast path."""
    daemon = make().start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        assert wire.producer(ID).put("Q", *(record(b"x", ("A", t)) for t in range(1, 1_001))) == []
        daemon.kill()
    with daemon.start().connect() as wire:
        producer = wire.producer(ID, resume=True)
        assert producer.commit_id == 1_000
        ((_, code, text),) = producer.put("Q", record(b"x", ("A", 500)))
        assert (name_of(code), text) == (
            "DUPLICATE_MESSAGE",
            "message A.500 already exists on queue Q",
        )
        assert producer.put("Q", record(b"x", ("A", 1_001))) == []
        row = wire.ask(m.QueueShow, "Q")
        assert (row["fast"], row["slow"], row["depth"]) == (1_001, 0, 1_001)


class Load:
    """A client that puts and consumes, and resends unanswered requests after each crash."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.daemon = daemon
        self.stored: set[int] = set()  # numbers with an acknowledged put
        self.settled: list[int] = []  # numbers with an acknowledged ack
        self._rng = random.Random(seed)
        self._number = 0
        self._puts: list[bytes] = []  # records of unanswered puts
        self._acks: list[tuple[Any, ...]] = []
        self._session = b""

    def run_until_killed(self) -> None:
        """Starts the daemon and works until the daemon is killed at a random time."""
        with self.daemon.start().connect(session=self._session) as wire:
            self._resume(wire)
            killer = threading.Timer(self._rng.uniform(0, 0.02), self.daemon.kill)
            try:
                for _ in range(self._rng.randrange(5, 40)):
                    self._step(wire)
                killer.start()
                while True:
                    self._step(wire)
            except (EOFError, OSError):
                killer.join()

    def _resume(self, wire: Wire) -> None:
        self._session = wire.session
        wire.ask(m.QueueCreate, "Q")
        self._producer = wire.producer(ID)
        if self._puts:
            first_id = self._number - len(self._puts) + 1
            assert self._producer.put("Q", *self._puts, first_id=first_id) == []
            self._put_answered()
        # The messages were removed earlier, or are settled now: no other client leased them.
        if self._acks:
            assert wire.ack(*self._acks) == []
            self._ack_answered()

    def _step(self, wire: Wire) -> None:
        for _ in range(self._rng.randrange(1, 30)):
            self._number += 1
            self._puts.append(record(b"%d:" % self._number + bytes(self._rng.choice([1, 9_000]))))
        assert self._producer.put("Q", *self._puts) == []
        self._put_answered()
        if leases := wire.get("Q", self._rng.randrange(1, 20)):
            self._acks = leases
            assert wire.ack(*leases) == []
            self._ack_answered()

    def _put_answered(self) -> None:
        self.stored |= {number_of(data) for data in self._puts}
        self._puts = []

    def _ack_answered(self) -> None:
        self.settled += [number_of(lease[-1]) for lease in self._acks]
        self._acks = []

    def drain(self) -> None:
        with self.daemon.start().connect(session=self._session) as wire:
            self._resume(wire)
            self.settled += [number_of(data) for data in wire.drain("Q")]


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_it_loses_and_doubles_nothing(make: Make, seed: int) -> None:
    """A client that resends unanswered puts and acks gets exactly-once delivery."""
    load = Load(make(), seed)
    for _ in range(4):
        load.run_until_killed()
    load.drain()
    assert sorted(load.settled) == sorted(load.stored), f"seed {seed}"
    assert len(load.stored) > 100


def test_killed_in_its_first_start_it_starts(make: Make) -> None:
    """The kill happens at any point of the store's creation."""
    daemon = make()
    for delay_ms in (400, 500, 600):
        daemon.launch()
        killer = threading.Timer(delay_ms / 1000, daemon.kill)
        killer.start()
        killer.join()
    with daemon.start().connect() as wire:
        wire.ask(m.Status)


# -- no space left


def fill(
    wire: Wire, size: int, most: int = 1 << 30, producer_id: bytes = b""
) -> tuple[int, str, str]:
    """Puts until a put is refused; returns the number of stored messages and the refusal."""
    depth = wire.ask(m.QueueShow, "Q")["depth"]
    producer = wire.producer(producer_id or random.Random(depth + size).randbytes(16))
    count, batch = 0, min(most, max(1, 60_000 // size))
    while count < most:
        refused = producer.put("Q", *[record(bytes(size))] * batch)
        if refused:
            _, code, text = refused[0]
            return wire.ask(m.QueueShow, "Q")["depth"] - depth, name_of(code), text
        count += batch
    return count, "", ""


def test_full_map_refuses_puts_and_can_be_drained(make: Make) -> None:
    daemon = make(store={"map_bytes": "8 MiB"}).start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        for size in (300, 3_000, 60_000):
            stored, code, text = fill(wire, size)
            assert code == "STORE_FULL"
            assert "raise store.map_bytes" in text
            assert stored > 10
            assert len(wire.drain("Q")) == stored
            wire.ask(m.QueuePurge, "Q")
        assert wire.ask(m.Status)["boot"] == 1


def test_full_map_is_drained_by_purge_or_deletion_after_a_kill(make: Make) -> None:
    daemon = make(store={"map_bytes": "8 MiB"}).start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        assert fill(wire, 300)[1] == "STORE_FULL"
    daemon.kill()
    with daemon.start().connect() as wire:
        assert wire.ask(m.QueuePurge, "Q")["messages"] > 1_000
        assert fill(wire, 1_000)[1] == "STORE_FULL"
        wire.ask(m.QueueDelete, "Q", True)
        wire.ask(m.QueueCreate, "Q")
        while wire.ask(m.Status)["jobs"]:
            pass
        assert fill(wire, 1_000, 500)[0] >= 500
        assert wire.ask(m.Status)["boot"] == 2


def test_message_larger_than_the_map_is_refused(make: Make) -> None:
    daemon = make(store={"map_bytes": "2 MiB"}).start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        assert fill(wire, 3 << 20, 1)[1] == "STORE_FULL"
        assert fill(wire, 300, 2)[1] == ""


def test_nearly_full_disk_refuses_puts_and_gets_continue(make: Make) -> None:
    daemon = make().start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        assert fill(wire, 100, 5, ID)[0] == 5
    assert daemon.stop() == 0
    daemon = make(store={"free_disk_min_bytes": "1 TiB"}).start()
    with daemon.connect() as wire:
        stored, code, text = fill(wire, 100, 6, ID)
        assert (stored, code) == (0, "STORE_FULL")
        assert "puts stop below 1099511627776 (store.free_disk_min_bytes)" in text
        assert wire.ask(m.Status)["store_full"] == text or "bytes free" in text
        assert len(wire.drain("Q")) == 5


def test_failed_write_stops_the_daemon_and_loses_nothing(make: Make) -> None:
    """The disk is full. The turn may or may not be stored, so no client gets an answer."""
    daemon = make(durability={"journal_bytes": "1 MiB"})
    daemon.limits = {resource.RLIMIT_FSIZE: 1 << 20}
    answered = 0
    with daemon.start().connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        producer = wire.producer(ID)
        with suppress(EOFError, ConnectionError):
            while answered < 10_000:
                assert producer.put("Q", record(b"%d:" % answered + bytes(3_900))) == []
                answered += 1
    assert daemon.exit_code() == 3, daemon.said
    assert daemon.find("stopping: stored data is intact")
    daemon.limits = {}
    with daemon.start().connect() as wire:
        producer = wire.producer(ID, resume=True)
        assert producer.commit_id in (answered, answered + 1)
        assert [number_of(x) for x in wire.drain("Q")] == list(range(producer.commit_id))


def test_daemon_without_free_file_descriptors_still_serves_its_clients(make: Make) -> None:
    daemon = make()
    daemon.limits = {resource.RLIMIT_NOFILE: 40}
    with daemon.start().connect("first") as first:
        wires = [Wire(daemon.address) for _ in range(60)]
        first.ask(m.QueueCreate, "Q")
        first.producer(ID).put("Q", record(b"x"))
        for wire in wires:
            wire.close()
        while first.ask(m.Status)["connections"] > 1:
            pass
        with daemon.connect("late") as late:
            assert late.ask(m.Status)["boot"] == 1
    assert daemon.stop() == 0


def test_only_the_owner_may_read_the_daemons_files(make: Make, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        daemon = make().start()
    finally:
        os.umask(before)
    with daemon.connect() as wire:
        wire.ask(m.Snapshot, str(tmp_path / "copy"))
    for path in (daemon.data_dir, tmp_path / "copy"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for found in path.rglob("*"):
            assert stat.S_IMODE(found.stat().st_mode) == (0o700 if found.is_dir() else 0o600), found


def test_closed_log_pipe_harms_nothing(make: Make) -> None:
    """After the reader of the log has ended, only new log entries are lost."""
    daemon = make().start()
    with daemon.connect() as wire:
        daemon.break_log()
        for _ in range(3):
            bad = Wire(daemon.address)
            bad.write(b"rubbish!")
            bad.goodbye()
        wire.ask(m.QueueCreate, "Q")
        wire.producer(ID).put("Q", record(b"x"))
        assert len(wire.drain("Q")) == 1
    assert daemon.stop() == 0
