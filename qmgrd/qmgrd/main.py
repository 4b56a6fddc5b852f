"""The command ``qmgrd``: reads the configuration, opens the store and serves until a signal."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import structlog
import uvloop

from qmgr_config.load import ConfigError, load
from qmgr_config.model import Config, ListenConfig, QueueManagerConfig
from qmgr_protocol.tls import TlsFailed
from qmgrd.core.catalogue.boot import StoreForeign
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.core.layout.row import RowDamaged
from qmgrd.core.limits.room import MAP_LEAST_BYTES
from qmgrd.core.turn import TurnFailed
from qmgrd.daemon import Daemon
from qmgrd.net.listener import ListenFailed
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.token_keys import KeysUnusable, TokenKeys
from qmgrd.net.welcome import SOFTWARE
from qmgrd.process import descriptors
from qmgrd.process import log as logs
from qmgrd.process.collector import short_collections
from qmgrd.process.notify import Notifier
from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.lmdb_store import LmdbStore, StoreIsSnapshot, StoreLocked, StoreMissing
from qmgrd.store.opening import open_store

EXIT_OK, EXIT_FAILED, EXIT_CONFIG, EXIT_STORE, EXIT_LISTEN = 0, 1, 2, 3, 4

# Only the daemon's user may read files that contain messages, and the directories above them.
UMASK = 0o077

_DESCRIPTION = """\
A queue manager: stores messages in queues on disk until they are consumed.
It serves until SIGTERM or SIGINT; its log goes to stderr.

Options override the environment, and the environment overrides the file. In
the environment, QMGRD_STORE__MAP_BYTES="8 GiB" sets map_bytes of [store].
Defaults are in parentheses. All options, with units and limits, are in
share/qmgrd/qmgrd.toml where this is installed, config/qmgrd.toml in the
source tree."""
_EPILOG = f"""\
exit codes:
  {EXIT_OK}  stopped on request, or the configuration is valid
  {EXIT_FAILED}  failed: see the log for the reason; start the daemon again
  {EXIT_CONFIG}  invalid usage or configuration
  {EXIT_STORE}  the store is in use, damaged or full, or belongs to another name
  {EXIT_LISTEN}  cannot listen: an address is in use, or not on this machine

examples:
  qmgrd --name NYC --data-dir /tmp/nyc 2>/tmp/nyc.log &
  qmgrd --name EWR --data-dir /tmp/ewr --tcp 127.0.0.1:7471
  qmgrd --config /etc/qmgrd/qmgrd.toml --check
  QMGRD_STORE__MAP_BYTES="8 GiB" qmgrd --config /etc/qmgrd/qmgrd.toml"""

log = structlog.get_logger()


def main() -> None:
    """Runs the daemon and exits with its code."""
    os.umask(UMASK)
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    # The reader of the output has closed the pipe. Otherwise, the interpreter would exit with code
    # 120.
    except OSError:
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs the daemon with *arguments* and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        config = load(options.config, _overrides(options))
    except ConfigError as error:
        print(f"qmgrd: configuration:\n{error}", file=sys.stderr)
        return EXIT_CONFIG
    try:
        tls = TlsFiles(config.tls)
    except TlsFailed as error:
        print(f"qmgrd: configuration:\ntls: {error}", file=sys.stderr)
        return EXIT_CONFIG
    try:
        token_keys = TokenKeys(config.auth.tokens)
    except KeysUnusable as error:
        print(f"qmgrd: configuration:\nauth.tokens: {error}", file=sys.stderr)
        return EXIT_CONFIG
    if options.check:
        print("the configuration is valid")
        return EXIT_OK
    logs.configure(config.log, sys.stderr)
    descriptors.raise_limit(config.listen)
    loop_factory = uvloop.new_event_loop if options.loop == "uvloop" else None
    if config.journal.url:
        return _share(config, (tls, token_keys), loop_factory, options)
    try:
        store = open_store(config.queue_manager.data_dir, config.store.map_bytes, config.durability)
    except (StoreFailed, StoreIsSnapshot, StoreLocked, StoreMissing, StoreUnreadable) as error:
        log.error("cannot open the store", why=str(error))
        return EXIT_STORE
    except OSError as error:
        where = error.filename or config.queue_manager.data_dir
        log.error("cannot open the store", why=f"{where}: {error.strerror}")
        return EXIT_STORE
    try:
        with closing(store), closing(Notifier(os.environ)) as notifier:
            return _serve(config, store, (tls, token_keys), notifier, loop_factory, options)
    except StoreFailed as error:
        log.error("cannot finish the store", why=str(error))
        return EXIT_STORE


def _serve(
    config: Config,
    store: LmdbStore,
    files: tuple[TlsFiles, TokenKeys],
    notifier: Notifier,
    loop_factory: Any,
    options: argparse.Namespace,
) -> int:
    space = store.space()
    if space.used_bytes >= space.map_bytes:  # LMDB could not even delete rows.
        why = f"the store uses {space.used_bytes} bytes: raise store.map_bytes ({space.map_bytes})"
        log.error("cannot use the store", why=why)
        return EXIT_STORE
    if config.store.map_bytes < MAP_LEAST_BYTES:
        log.warning(
            "the store is small",
            map_bytes=config.store.map_bytes,
            why=f"below {MAP_LEAST_BYTES} bytes a full store may end the daemon: raise "
            "store.map_bytes",
        )
    try:
        daemon = Daemon(config, store, notifier, *files, is_maintenance=options.maintenance)
        if options.maintenance:
            log.warning("in maintenance: no timers, jobs, links or scheduled snapshots")
    except (StoreForeign, StoreFailed, RowDamaged) as error:
        log.error("cannot use the store", why=str(error))
        return EXIT_STORE
    except Exception as error:  # Damage can raise any exception.
        why = f"{type(error).__name__}: {error}"
        log.error("cannot start from the store: it may be damaged", why=why, exc_info=error)
        return EXIT_STORE
    try:
        with short_collections(), asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_until_signal(daemon.run, daemon.stop))
    except ListenFailed as error:
        log.error("cannot listen", why=str(error))
        return EXIT_LISTEN
    except StoreFailed:  # The failure is already logged.
        return EXIT_STORE
    except TurnFailed:
        return EXIT_FAILED
    except OSError as error:  # The system has no free file descriptor for the event loop.
        log.error("cannot run the event loop", why=error.strerror)
        return EXIT_FAILED
    log.info("stopped")
    return EXIT_OK


def _share(
    config: Config,
    files: tuple[TlsFiles, TokenKeys],
    loop_factory: Any,
    options: argparse.Namespace,
) -> int:
    """Runs a member of a queue manager whose journal is on a server."""
    try:
        from qmgrd.engine.server import ServerUnusable
        from qmgrd.member.member import MemberProcess
    except ImportError as error:
        why = f"journal.url needs psycopg ({error}): pip install 'qmgrd-all[postgresql]'"
        log.error("cannot use the journal", why=why)
        return EXIT_CONFIG
    with closing(Notifier(os.environ)) as notifier:

        async def serve() -> None:
            member = MemberProcess(config, notifier, *files, is_maintenance=options.maintenance)
            await _until_signal(member.run, member.stop)

        try:
            with short_collections(), asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(serve())
        except ListenFailed as error:
            log.error("cannot listen", why=str(error))
            return EXIT_LISTEN
        except ServerUnusable as error:
            log.error("cannot use the journal", why=str(error))
            return EXIT_STORE
        except (StoreFailed, StoreForeign, RowDamaged, StoreIsSnapshot, StoreLocked) as error:
            log.error("cannot use the store", why=str(error))
            return EXIT_STORE
        except TurnFailed:
            return EXIT_FAILED
        except OSError as error:
            log.error("cannot use the store", why=f"{error.filename or ''}: {error.strerror}")
            return EXIT_STORE
    log.info("stopped")
    return EXIT_OK


async def _until_signal(
    run: Callable[[], Coroutine[Any, Any, None]], stop_run: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            # The second signal stops the daemon immediately.
            signal.signal(number, lambda *_: os._exit(EXIT_FAILED))
        log.info("stopping")
        stop_run()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qmgrd",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, manager = parser.add_argument, QueueManagerConfig()
    add("--config", type=Path, metavar="FILE", help="the configuration (TOML)")
    add("--name", help=f"queue_manager.name: cannot change once the store exists ({manager.name})")
    add("--data-dir", metavar="DIR", help=f"queue_manager.data_dir ({manager.data_dir})")
    add(
        "--tcp",
        action="append",
        metavar="HOST:PORT",
        help=f"listen.tcp; repeatable ({', '.join(ListenConfig().tcp)})",
    )
    add("--check", action="store_true", help="check the configuration and exit")
    add(
        "--maintenance",
        action="store_true",
        help="serve operators only: start no timers, jobs, links, fan-out or snapshots",
    )
    add(
        "--loop",
        choices=("uvloop", "asyncio"),
        default="uvloop",
        help="the event loop: asyncio is Python's standard one, and slower (uvloop)",
    )
    add("--version", action="version", version=SOFTWARE, help="show the version and exit")
    return parser


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    manager = {"name": options.name, "data_dir": options.data_dir}
    found = {"queue_manager": {key: value for key, value in manager.items() if value is not None}}
    if options.tcp is not None:
        return found | {"listen": {"tcp": options.tcp}}
    return found
