"""qmctl bench transfer: the capacity of a link, and a comparison with other protocols."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from qmgr_tools.cli import completion, option, output
from qmgr_tools.cli import humanize as humanize
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage

DOING = "measure a link"
BATCH = 50
EXPLAINED, EXPLAINED_LEAST, EXPLAINED_MOST = 1_000, 500, 4_000
RATED, RATED_SIZES = 50_000, (256, 1_024)
SIZE, SIZE_MOST = 256, 1_024  # in bytes; a window holds 4,000 messages of SIZE_MOST
COMMITS = {"QMGRD_LINK__COMMIT_MESSAGES": str(BATCH)}
# Because of this long interval, a number of messages triggers each commit except the last.
COUNTED = COMMITS | {"QMGRD_LINK__COMMIT_INTERVAL_MS": "10 s"}

Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Count the traffic, compare it with other protocols, and explain the result.",
    ),
]
Count = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        show_default=False,
        help=f"The number of messages. Default: {RATED:,}. With --explain: {EXPLAINED:,}, from "
        f"{EXPLAINED_LEAST:,} to {EXPLAINED_MOST:,}.",
    ),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        file_okay=False,
        exists=True,
        show_default=False,
        autocompletion=completion.files,
        help="A directory on the disk to measure; no files remain in it. Default: the "
        "directory of temporary files.",
    ),
]


def _size(text: str | int) -> int:
    return int(option.within(option.size(text), 1, SIZE_MOST, humanize.size))


Size = Annotated[
    int | None,
    typer.Option(
        metavar="SIZE",
        parser=_size,
        show_default="256 B",
        help=f"The size of each body, only with --explain; at most {humanize.size(SIZE_MOST)}.",
    ),
]

RATES = (
    output.size("size_bytes", "SIZE"),
    output.count("messages_per_second", "MSG/S"),
    output.count("from_cpu_us", "SENDER CPU US"),
    output.count("to_cpu_us", "RECEIVER CPU US"),
)
FLOWS = (
    output.text("way", "FLOWS"),
    output.text("how"),
    output.count("messages"),
    output.count("words", "NOTICES"),
    output.count("flows", "TOTAL"),
    output.count("frames"),
    output.size("bytes"),
)
WAITS = (
    output.text("way", "WAIT UNTIL AVAILABLE"),
    output.count("first_ms", "FIRST MS"),
    output.count("median_ms", "MEDIAN MS"),
    output.count("batch_ms", "ALL MS"),
)
AGAIN = (
    output.text("way", "RESENT AFTER A DROP"),
    output.text("how"),
    output.count("messages"),
    output.size("bytes"),
)
JSON_KEYS = """\b
JSON: an object with
 messages, size_bytes, batch
 rates       without --explain, a list of size_bytes, messages_per_second,
  from_cpu_us, to_cpu_us: processor time of each daemon per message
 flows       with --explain, like the next two: a list of way, how (measured
  or computed), messages, words (commits and requests for commits), flows
  (the sum of both), frames, bytes
 waits       a list of way, first_ms, median_ms, batch_ms
 again       a list of way, how, messages, bytes
Values that were not measured are null."""


@command(JSON_KEYS, local=True)
def transfer(
    call: Call,
    explain: Explain = False,
    count: Count = None,
    size: Size = None,
    directory: Directory = None,
) -> None:
    """Measures a link between two daemons that the command starts for this purpose.

    Without --explain the command transfers a backlog of 256 B messages and one of 1 KiB. With
    --explain the link commits every 50 messages. The command compares the link with a computed
    protocol that confirms each message, and with a channel that sends batches of 50. It shows the
    flows on the wire, the time until a message is available at the far end, and the messages that
    are sent again after a drop.

    Examples:
      qmctl bench transfer
      qmctl bench transfer --explain
      qmctl bench transfer --explain --count 4000 -o json
    """
    if explain and not EXPLAINED_LEAST <= (count or EXPLAINED) <= EXPLAINED_MOST:
        raise usage(
            f"cannot {DOING}",
            f"--explain counts {EXPLAINED_LEAST:,} to {EXPLAINED_MOST:,} messages",
            "change or omit --count",
        )
    if size is not None and not explain:
        sizes = " and ".join(map(humanize.size, RATED_SIZES))
        raise usage(
            f"cannot {DOING}",
            f"--size needs --explain; without --explain the command measures {sizes}",
            "add --explain, or omit --size",
        )
    if sys.stderr.isatty():
        output.note("measuring; press Ctrl-C to stop")
    with _failing(), TemporaryDirectory(prefix="qmctl-transfer-", dir=directory) as made:
        if explain:
            row = explained(Path(made), count or EXPLAINED, size or SIZE)
        else:
            row = rated(Path(made), count or RATED)
    if call.is_json:
        output.document(row)
    else:
        show(row)


@contextmanager
def _failing() -> Iterator[None]:
    from qmgr_bench.load import LoadFailed
    from qmgr_protocol.errors import RequestError

    try:
        yield
    except (LoadFailed, RequestError, OSError) as error:
        remedy = "run the command again; --dir selects the directory"
        raise Failure(Exit.FAILED, f"cannot {DOING}", str(error), remedy) from error


def rated(directory: Path, messages: int) -> dict[str, Any]:
    """Measures the rate of a backlog and returns the results."""
    from qmgr_bench.pair import pair  # The import takes too long for --help.

    with pair(directory) as ends:
        rates = []
        for size in RATED_SIZES:
            rates.append({"size_bytes": size} | asdict(ends.pull(messages, size, _nobody)))
    return _row(messages, None, rates=rates)


def explained(directory: Path, messages: int, size_bytes: int) -> dict[str, Any]:
    """Counts, measures and computes the comparison, and returns the results."""
    from qmgr_bench.network import Network
    from qmgr_bench.pair import pair
    from qmgr_bench.transfer_drop import drops
    from qmgr_bench.transfer_flows import flows
    from qmgr_bench.transfer_wait import waits

    found: dict[str, Sequence[Any]] = {}
    with Network() as network:
        with pair(directory / "counted", COUNTED) as ends:
            found["flows"] = flows(ends, network, messages, size_bytes, BATCH)
        with pair(directory / "timed", COMMITS) as ends:
            found["waits"] = waits(ends, size_bytes, BATCH)
            found["again"] = drops(ends, network, messages, size_bytes, BATCH)
    lists = {key: [asdict(one) for one in values] for key, values in found.items()}
    return _row(messages, size_bytes, **lists)


def _row(messages: int, size_bytes: int | None, **lists: list[dict[str, Any]]) -> dict[str, Any]:
    keys = ("rates", "flows", "waits", "again")
    row: dict[str, Any] = {"messages": messages, "size_bytes": size_bytes, "batch": BATCH}
    return row | {key: lists.get(key) for key in keys}


def _nobody(words: str) -> None:
    del words


def show(row: Mapping[str, Any]) -> None:
    """Prints the tables of *row*, each with an explanation."""
    if row["rates"] is not None:
        output.table(RATES, row["rates"])
        return
    parts: tuple[tuple[str, Sequence[output.Column], Callable[[Mapping[str, Any]], str]], ...] = (
        ("flows", FLOWS, about_flows),
        ("waits", WAITS, about_waits),
        ("again", AGAIN, about_again),
    )
    for key, columns, about in parts:
        output.table(columns, row[key])
        output.words([(about(row), "")])
        if key != "again":
            output.say("")


def about_flows(row: Mapping[str, Any]) -> str:
    """Returns an explanation of the flows in *row*."""
    single, _, confirms, channel = (one["flows"] for one in row["flows"])
    return (
        "A flow is one message, or one notice about messages, in one direction. The link took "
        f"{single:,} flows. A protocol that confirms each message takes {confirms:,} (computed, "
        f"not run). A channel that sends batches of {row['batch']} takes {channel:,}, about as "
        "many as the link. A link saves no flows compared with batches; the tables below show "
        "its advantages."
    )


def about_waits(row: Mapping[str, Any]) -> str:
    """Returns an explanation of the waits in *row*."""
    link, channel = row["waits"]
    return (
        f"{row['batch']} messages were sent, one every 2 ms. Over the link, the first message was "
        f"available {link['first_ms']:,g} ms after it was sent: a stored message is available "
        f"before its commit. Over the channel, the first message took {channel['first_ms']:,g} "
        "ms: a batch becomes available "
        "with its last message."
    )


def about_again(row: Mapping[str, Any]) -> str:
    """Returns an explanation of the repeated messages in *row*."""
    one, all_, bare, whole, batch = (each["messages"] for each in row["again"])
    return (
        f"The link sends the messages of the stalled connection again: {one:,}, or {all_:,} if all "
        "connections were cut. The receiver reports the messages that it holds above the gap. A "
        f"link that knows only the commit id sends everything above it again: {bare:,}. An open "
        f"batch is sent again completely: {whole:,} if all messages in flight are one batch. A "
        f"channel with batches of {row['batch']} sends at most {batch:,} again, because it waits "
        "for the answer to each batch."
    )
