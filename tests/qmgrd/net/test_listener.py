"""Tests of listening: the addresses, and the reasons for failures."""

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_config.model import Config
from qmgrd.net import listener as listeners_
from qmgrd.net.door import Door
from qmgrd.net.listener import OPENING_MAX, Listener, ListenFailed, Protocol, bind
from tests.qmgrd.descriptors import none_left


async def listen(config: Config, door: Door, protocol: Protocol) -> list[Listener]:
    """Returns a listener for each address of *config*."""
    sockets = await bind(config)
    listeners = sockets.listeners(door, protocol)
    sockets.close()
    return listeners


def config(tmp_path: Path, *tcp: str, unix: str = "off") -> Config:
    sections: dict[str, Any] = {
        "queue_manager": {"data_dir": tmp_path},
        "listen": {"tcp": tcp, "unix": unix},
    }
    return Config.model_validate(sections)


def is_idle() -> bool:
    """Returns that no turn is due."""
    return False


class Closing(asyncio.Protocol):
    """A protocol that closes each connection that it accepts."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def close(listeners: list[Listener]) -> None:
    for listener in listeners:
        listener.close()


async def answers(name: str, *, closes: bool = True) -> bool:
    """Returns whether a socket listens at *name*, which *closes* connections that it accepts."""
    try:
        if name.startswith("unix:"):
            reader, writer = await asyncio.open_unix_connection(name.removeprefix("unix:"))
        else:
            host, _, port = name.rpartition(":")
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError:
        return False
    if closes:
        await reader.read()
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0)  # The listener's end closes, too.
    return True


async def test_listens_on_all_and_names_them_as_a_client_would(tmp_path: Path) -> None:
    listeners = await listen(config(tmp_path, "127.0.0.1:0", unix=""), Door(is_idle), Closing)
    names = [listener.name for listener in listeners]
    tcp, unix = names
    assert tcp.startswith("127.0.0.1:")
    assert not tcp.endswith(":0")
    assert unix == f"unix:{tmp_path}/qmgrd.sock"
    assert [await answers(name) for name in names] == [True, True]
    close(listeners)


async def test_names_ipv6_in_brackets(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    listeners = await listen(config(tmp_path, "[::1]:0"), Door(is_idle), Closing)
    assert listeners[0].name.startswith("[::1]:")
    close(listeners)


async def test_unix_socket_is_the_owners_alone(tmp_path: Path) -> None:
    listeners = await listen(config(tmp_path, unix=""), Door(is_idle), Closing)
    assert stat.S_IMODE((tmp_path / "qmgrd.sock").stat().st_mode) == 0o600
    close(listeners)


async def test_unix_socket_may_be_off(tmp_path: Path) -> None:
    listeners = await listen(config(tmp_path), Door(is_idle), Closing)
    assert listeners == []


async def test_port_in_use_is_reported_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenFailed, match=f"127.0.0.1:{port}: Address already in use: stop"):
            await listen(config(tmp_path, f"127.0.0.1:{port}"), Door(is_idle), Closing)


async def test_address_of_another_machine_is_reported(tmp_path: Path) -> None:
    sections: dict[str, Any] = {
        "queue_manager": {"data_dir": tmp_path},
        "listen": {"tcp": [], "tls": ["192.0.2.1:0"], "unix": "off"},
        "tls": {"certificate": "/tls.crt", "key": "/tls.key"},
    }
    with pytest.raises(ListenFailed, match=r"on 192\.0\.2\.1:0: Cannot assign"):
        await listen(Config.model_validate(sections), Door(is_idle), Closing)


async def test_failure_at_one_address_lets_go_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "qmgrd.sock").write_text("a file")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(ListenFailed, match=r"qmgrd.sock: the path is a file but not a socket"):
        await listen(config(tmp_path, f"127.0.0.1:{port}", unix=""), Door(is_idle), Closing)
    assert (tmp_path / "qmgrd.sock").read_text() == "a file"
    await asyncio.sleep(0)
    assert not await answers(f"127.0.0.1:{port}")


async def test_socket_that_a_killed_daemon_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "qmgrd.sock"))
    listeners = await listen(config(tmp_path, unix=""), Door(is_idle), Closing)
    assert await answers(listeners[0].name)
    close(listeners)


async def test_socket_in_use_is_kept(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "qmgrd.sock"))
        other.listen()
        with pytest.raises(
            ListenFailed, match="another program uses it: stop the program, or change"
        ):
            await listen(config(tmp_path, unix=""), Door(is_idle), Closing)
        assert await answers(f"unix:{tmp_path}/qmgrd.sock", closes=False)


async def test_unix_socket_in_a_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ListenFailed, match="No such file or directory"):
        await listen(config(tmp_path, unix=str(tmp_path / "none" / "s")), Door(is_idle), Closing)


async def test_connection_without_a_descriptor_for_it_waits_and_is_reported_once(
    tmp_path: Path,
) -> None:
    (listener,) = await listen(config(tmp_path, "127.0.0.1:0"), Door(is_idle), Closing)
    host, _, port = listener.name.rpartition(":")
    with socket.socket() as client, capture_logs() as log:
        client.setblocking(False)
        with none_left():
            await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
            while not log:
                await asyncio.sleep(0)
            for _ in range(100):  # An immediate retry would log the error again, or not at all.
                await asyncio.sleep(0)
            assert listener._retry is not None
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    assert [(entry["event"], entry["why"]) for entry in log] == [
        ("new connections wait: the system cannot accept them", "Too many open files")
    ]
    close([listener])


async def test_shortage_is_reported_once_for_all_waiting_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each accepted connection makes the next one fail. Without a limit, the log would fill up."""
    monkeypatch.setattr(listeners_, "RETRY_S", 0.01)
    (listener,) = await listen(config(tmp_path, "127.0.0.1:0"), Door(is_idle), Closing)
    host, _, port = listener.name.rpartition(":")
    loop = asyncio.get_running_loop()
    clients = [socket.socket() for _ in range(4)]
    with capture_logs() as log, none_left(but=1):
        for client in clients:
            client.setblocking(False)
            await loop.sock_connect(client, (host, int(port)))
        async with asyncio.timeout(20):
            for client in clients:
                assert await loop.sock_recv(client, 1) == b""
                client.close()
    assert len(log) == 1
    close([listener])


async def test_listener_may_be_closed_while_connections_wait(tmp_path: Path) -> None:
    (listener,) = await listen(config(tmp_path, "127.0.0.1:0"), Door(is_idle), Closing)
    name = listener.name
    host, _, port = name.rpartition(":")
    with socket.socket() as client:
        client.setblocking(False)
        with none_left():
            await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
            while listener._retry is None:
                await asyncio.sleep(0)
        close([listener])
    assert not await answers(name)


async def test_many_that_come_at_once_are_all_accepted(tmp_path: Path) -> None:
    (listener,) = await listen(config(tmp_path, "127.0.0.1:0"), Door(is_idle), Closing)
    assert all(await asyncio.gather(*(answers(listener.name) for _ in range(4 * OPENING_MAX))))
    close([listener])


async def test_name_is_looked_up_and_one_that_is_none_is_reported(tmp_path: Path) -> None:
    listeners = await listen(config(tmp_path, "localhost:0"), Door(is_idle), Closing)
    assert [await answers(listener.name) for listener in listeners] == [True] * len(listeners)
    assert listeners
    close(listeners)


async def test_unix_socket_without_a_descriptor_to_look_with_is_reported(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "qmgrd.sock"))
    with none_left(), pytest.raises(ListenFailed, match=r"qmgrd.sock: Too many open files: stop"):
        await listen(config(tmp_path, unix=""), Door(is_idle), Closing)


async def test_host_that_can_have_no_name_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ListenFailed, match=r"cannot listen on a\.\.b:7470: .*label empty"):
        await listen(
            Config.model_validate(
                {
                    "queue_manager": {"data_dir": tmp_path},
                    "listen": {"tcp": [], "tls": ["a..b:7470"], "unix": "off"},
                    "tls": {"certificate": "/tls.crt", "key": "/tls.key"},
                }
            ),
            Door(is_idle),
            Closing,
        )
