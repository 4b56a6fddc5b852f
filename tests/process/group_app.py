"""An application that puts or reads groups on request: python -m tests.process.group_app.

Each line of JSON on standard input is an order. Lines of JSON on standard output report progress
and the result. The program remembers nothing between orders. After a kill with -9 and a restart,
only its output and the status messages remain.

    {"put": "GROUPS", "name": "p1.3", "group_id": "70..", "length": 19, "resume_from": 8}
        {"at": 8} ... {"at": 19} {"done": 12, "skipped": 7}
    {"read": "READ", "name": "reader"}
        {"at": 1} ... {"done": 19, "skipped": 0}        a message and its bill share a unit
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from qmgr_client.blocking import Client, UnitOfWork, connect
from qmgr_client.message import Message
from qmgr_protocol.errors import RequestError, name_of

WAIT_MS = 60_000
READ_WAIT_MS = 500
BATCH = 7  # messages per unit, so that most groups need several units
STATUS, BILLS = "GROUPS.STATUS", "BILLS"


def say(**line: Any) -> None:
    """Reports progress."""
    print(json.dumps(line), flush=True)


def put(client: Client, told: dict[str, Any]) -> None:
    """Puts a group, starting at the item at which the caller resumes."""

    def items() -> Iterator[bytes]:
        for number in range(told["resume_from"], told["length"] + 1):
            say(at=number)
            yield f"{told['name']}:{number}".encode()

    done = client.put_group(
        told["put"],
        items(),
        status_queue=STATUS,
        name=told["name"],
        batch=BATCH,
        resume_from=told["resume_from"],
        group_id=bytes.fromhex(told["group_id"]),
    )
    say(done=done.put, skipped=done.skipped)


def read(client: Client, told: dict[str, Any]) -> None:
    """Reads a group, and puts a bill for each message."""

    def bill(message: Message, unit: UnitOfWork) -> None:
        say(at=message.group_number)
        name = message.body.partition(b":")[0]
        unit.put(BILLS, message.body, correlation_id=name)

    got = client.get_group(
        told["read"],
        bill,
        status_queue=STATUS,
        name=told["name"],
        batch=BATCH,
        wait_ms=READ_WAIT_MS,
        all_available=False,
    )
    say(done=got.got if got else 0, skipped=got.skipped if got else 0)


def main(address: str) -> None:
    """Executes orders until the input ends."""
    with connect(address, name="application", wait_ms=WAIT_MS) as client:
        say(at=0)
        for line in sys.stdin:
            told = json.loads(line)
            try:
                (put if "put" in told else read)(client, told)
            except RequestError as error:
                say(error=name_of(error.code))


if __name__ == "__main__":
    main(sys.argv[1])
