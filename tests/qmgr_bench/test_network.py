import socket
import time

from qmgr_bench.network import Network
from qmgr_proxy.pipe import Shape
from qmgr_proxy.proxy import ProxyConnection, Way


def test_proxy_passes_bytes_late_and_has_them_heard() -> None:
    heard: list[tuple[int, Way, bytes]] = []

    def hear(connection: ProxyConnection, way: Way, data: bytes) -> None:
        heard.append((connection.number, way, data))

    with socket.create_server(("127.0.0.1", 0)) as server, Network() as network:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        proxy = network.proxy(address, Shape(delay_ms=30), hear)
        with socket.create_connection(("127.0.0.1", proxy.port)) as near:
            far, _ = server.accept()
            with far:
                start_s = time.monotonic()
                near.sendall(b"there")
                assert far.recv(10) == b"there"
                far.sendall(b"back")
                assert near.recv(10) == b"back"
                assert (
                    time.monotonic() - start_s > 0.05
                )  # The delay is 60 ms, but timers are coarse.
                network.call(proxy.cut)
                assert network.call(lambda: proxy.taken) == 1
    assert heard == [(0, Way.FORTH, b"there"), (0, Way.BACK, b"back")]
