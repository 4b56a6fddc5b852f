"""A real daemon in a process, and a blocking client for it."""

import json
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.states import Side

PATIENCE_S = 60  # a deadline, not a measurement: the machine may be busy


class Daemon:
    """A process of qmgrd. ``log`` contains its log entries."""

    def __init__(self, data_dir: Path, **sections: dict[str, Any]) -> None:
        self.data_dir = data_dir
        self.sections: dict[str, dict[str, Any]] = {
            "queue_manager": {"name": "QM1", "data_dir": str(data_dir)},
            "listen": {"tcp": []},
        }
        for section, values in sections.items():
            self.sections.setdefault(section, {}).update(values)
        self.log: list[dict[str, Any]] = []
        self.limits: dict[int, int] = {}  # limits of the kernel, as in resource.prlimit
        self.command = [sys.executable, "-m", "qmgrd"]
        self._process: subprocess.Popen[bytes] | None = None
        self._changed = threading.Condition()
        self._deaf = False

    def start(self) -> "Daemon":
        """Starts the daemon, and waits until it listens."""
        self.launch()
        self.wait_for("listening")
        return self

    def launch(self) -> "Daemon":
        """Starts the daemon without waiting for it."""
        file = self.data_dir.parent / f"{self.data_dir.name}.toml"
        file.write_text(toml(self.sections))
        self.log.clear()
        self._process = subprocess.Popen(
            [*self.command, "--config", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self.data_dir.parent,
        )
        for kind, value in self.limits.items():
            resource.prlimit(self._process.pid, kind, (value, value))
        self._reader = threading.Thread(target=self._read, args=(self._process,))
        self._reader.start()
        return self

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                entry = json.loads(line) if line.startswith(b"{") else {"event": line.decode()}
                with self._changed:
                    self.log.append(entry)
                    self._changed.notify_all()
                if self._deaf:
                    break
        process.wait()
        with self._changed:
            self._changed.notify_all()

    def break_log(self) -> None:
        """Reads one more log entry, then closes the pipe."""
        self._deaf = True

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def said(self) -> str:
        """The complete log, shown if a test fails."""
        return "\n".join(map(str, self.log))

    def find(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log if event in entry["event"]]

    def comes_to(self, event: str) -> bool:
        """Waits until the daemon logs *event* or ends; returns whether it logged the event."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.find(event) or self.process.poll() is not None, PATIENCE_S
            )
            return bool(self.find(event))

    def wait_for(self, event: str) -> dict[str, Any]:
        """Waits for the first entry of *event*, and returns the entry."""
        self.comes_to(event)
        with self._changed:
            assert self.find(event), f"exit code {self.process.poll()}: {self.said}"
            return self.find(event)[0]

    @property
    def address(self) -> str:
        """The first listening address."""
        address: str = self.find("listening")[0]["addresses"][0]
        return address

    def connect(self, name: str = "app", address: str = "", session: bytes = b"") -> "Wire":
        """Returns a connection after the handshake, which resumes *session* if one is given."""
        wire = Wire(address or self.address)
        wire.send(m.Hello(m.MAGIC, 1, 1, "client", name, session=session))
        wire.session = wire.next(m.Welcome).session
        return wire

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Waits for the end of the daemon, and returns its exit code."""
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return self.process.returncode

    def stop(self) -> int:
        """Stops the daemon cleanly, and returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.exit_code()

    def kill(self) -> None:
        """Kills the daemon, as in a power failure that preserves the disk's cache."""
        self.signal(signal.SIGKILL)
        self.exit_code()

    def close(self) -> None:
        """Ends the process in all cases."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self.exit_code()


def toml(sections: dict[str, dict[str, Any]]) -> str:
    """Returns the text of a configuration file."""
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


class Wire:
    """A blocking connection. ``received`` contains messages that no caller has requested yet."""

    def __init__(self, address: str, patience_s: float = PATIENCE_S) -> None:
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(patience_s)
            try:
                self.socket.connect(address.removeprefix("unix:"))
            except OSError:
                self.socket.close()
                raise
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)), patience_s)
        self.received: list[Any] = []
        self.session = b""  # secret with which another connection can resume this session
        self._protocol = Connection(Side.DIALLER)
        self._last_id = 0

    def send(self, *messages: Any) -> None:
        self.write(b"".join(map(self._protocol.send, messages)))

    def write(self, data: bytes) -> None:
        """Sends *data*, valid or not."""
        self.socket.sendall(data)

    def _wait(self, wanted: Callable[[Any], bool]) -> Any:
        while True:
            for message in self.received:
                if wanted(message):
                    self.received.remove(message)
                    return message
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError(f"the end, after {self.received}")
            self.received += [message for message, _ in self._protocol.receive(data, 0)]

    def next(self, kind: type[Any]) -> Any:
        """Returns the next message of type *kind*.

        Raises:
            EOFError: The connection ended without such a message.
        """
        return self._wait(lambda message: type(message) is kind)

    def ask(self, kind: Callable[..., Any], *fields: Any) -> Any:
        """Returns the result of a request.

        Raises:
            RequestError: The daemon refused the request.
        """
        self._last_id += 1
        request_id = self._last_id
        self.send(kind(request_id, *fields))
        answer = self._wait(lambda x: type(x) in (m.Ok, m.Error) and x.request_id == request_id)
        if type(answer) is m.Error:
            raise RequestError(ErrorCode(answer.code), answer.text)
        return answer.value

    def goodbye(self) -> m.Goaway:
        """Waits until the other end says goodbye and closes; returns the goodbye."""
        goaway: m.Goaway = self.next(m.Goaway)
        assert self.socket.recv(1) == b""
        self.close()
        return goaway

    def get(self, queue: str, count: int = 1) -> list[tuple[Any, ...]]:
        """Returns leased messages: queue id, then the fields of DELIVERY, then the record."""
        self._last_id += 1
        self.send(m.Get(self._last_id, queue, count, 0, 0, 1 << 30))
        answer = self._wait(
            lambda x: type(x) in (m.Deliver, m.Ok) and x.request_id == self._last_id
        )
        if type(answer) is m.Ok:
            return []
        return [(answer.queue_id, *_apart(item)) for item in answer.items]

    def ack(self, *leases: tuple[Any, ...]) -> list[list[int]]:
        """Acknowledges *leases*; returns the refusals."""
        self._last_id += 1
        handles = b"".join(m.HANDLE.pack(*lease[1:4]) for lease in leases)
        self.send(m.Settle(self._last_id, m.ACK, leases[0][0], handles))
        exceptions: list[list[int]] = self.next(m.Settled).exceptions
        return exceptions

    def producer(self, producer_id: bytes, resume: bool = False) -> "Producer":
        return Producer(self, producer_id, resume)

    def drain(self, queue: str) -> list[bytes]:
        """Consumes all messages of *queue*; returns the records in order."""
        found: list[bytes] = []
        while leases := self.get(queue, 256):
            self.ack(*leases)
            found += [lease[-1] for lease in leases]
        return found

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer:
    """A sequenced producer."""

    def __init__(self, wire: Wire, producer_id: bytes, resume: bool) -> None:
        self.wire = wire
        self.stream, self.commit_id = wire.ask(m.ProducerOpen, producer_id, resume)[:2]
        self.seen = 0

    def put(self, queue: str, *batch: bytes, first_id: int = 0) -> list[list[Any]]:
        """Puts records under the next ids, or from *first_id* on; returns the refusals."""
        first_id = first_id or self.commit_id + 1
        self.wire.send(m.Put(self.stream, first_id, self.seen, queue, list(batch)))
        refused: list[list[Any]] = []
        while True:  # The parts of a long put may have an answer each.
            answer = self.wire.next(m.Committed)
            self.seen = self.commit_id = answer.commit_id
            refused += answer.refused
            if self.commit_id >= first_id + len(batch) - 1:
                return refused


def _apart(item: bytes) -> tuple[Any, ...]:
    """Returns the fields at the head of a delivery item, and its record."""
    behind = item[m.DELIVERY_BYTES :]
    return *m.DELIVERY.unpack_from(item), behind[: records.size_of(behind)]
