"""The pytest plugin. Installing the package activates it.

Fixtures: `zk_server`, `zk_shared_server`, `zk_cluster`, `zk_connect`, `zk_client`.
Markers: `@pytest.mark.zk_server(...)` and `@pytest.mark.zk_cluster(...)` have the arguments of
`TestServer` and of `TestCluster`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator

import pytest

from ._server import TestCluster, TestServer
from .errors import ZkTestServerError

if TYPE_CHECKING:
    from kazoo.client import KazooClient


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers."""
    for name, of in (("zk_server", "TestServer"), ("zk_cluster", "TestCluster")):
        config.addinivalue_line(
            "markers", f"{name}(*args, **options): the arguments of {of} for the fixture {name}"
        )


def _started(request: pytest.FixtureRequest, name: str, kind: Callable[..., TestServer]) -> Any:
    marker = request.node.get_closest_marker(name)
    return kind(*marker.args, **marker.kwargs) if marker else kind()


@pytest.fixture
def zk_server(request: pytest.FixtureRequest) -> Generator[TestServer, None, None]:
    """Returns a server of this test alone."""
    with _started(request, "zk_server", TestServer) as server:
        yield server


@pytest.fixture
def zk_cluster(request: pytest.FixtureRequest) -> Generator[TestCluster, None, None]:
    """Returns an ensemble of this test alone, of three members by default."""
    with _started(request, "zk_cluster", TestCluster) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def zk_shared_server() -> Generator[TestServer, None, None]:
    """Returns the server that all tests of this process share.

    `reset` ends all faults after each test that uses it. Nodes and sessions stay: each test needs
    paths of its own, for example a chroot in its connect string.
    """
    with TestServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _zk_reset(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    # Automatic fixtures are set up first and end last, after the clients of the test.
    yield
    shared = _servers(request.node).get("zk_shared_server")
    if shared is not None:
        shared.reset()


@pytest.fixture
def zk_connect(
    request: pytest.FixtureRequest,
) -> Generator[Callable[..., KazooClient], None, None]:
    """Returns a function that connects kazoo clients, which are closed after the test.

    `zk_connect()` connects to the server that the test uses: `zk_cluster`, `zk_shared_server` or,
    by default, `zk_server`. Arguments are those of `KazooClient`, such as `timeout=1.0` or
    `hosts=zk_server.connect_string + "/chroot"`.
    """
    try:
        from kazoo.client import KazooClient
    except ImportError:
        pytest.fail("the fixtures zk_client and zk_connect need kazoo: pip install kazoo")
    server = _server_of(request)
    ends = ExitStack()

    def connect(**options: Any) -> KazooClient:
        options.setdefault("hosts", server.connect_string)
        if "handler" not in options:
            # By default, kazoo doubles its pauses between attempts to connect without a limit.
            retry = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}
            options.setdefault("connection_retry", retry)
        client = KazooClient(**options)
        ends.callback(client.close)
        ends.callback(client.stop)
        client.start()
        return client

    with ends:
        yield connect
        # A client cannot end its session at a server that hangs.
        for one in {server, *_servers(request.node).values()}:
            try:
                one.reset()
            except ZkTestServerError:
                pass  # The test has closed the server, or has ended it.


@pytest.fixture
def zk_client(zk_connect: Callable[..., KazooClient]) -> KazooClient:
    """Returns a connected kazoo client, see `zk_connect`. It is closed after the test."""
    return zk_connect()


def _server_of(request: pytest.FixtureRequest) -> TestServer:
    for name in ("zk_cluster", "zk_shared_server"):
        if name in request.fixturenames:
            server: TestServer = request.getfixturevalue(name)
            return server
    server = request.getfixturevalue("zk_server")
    return server


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Adds the faults and the state of servers to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" or not report.failed:
        return
    for name, server in _servers(item).items():
        report.sections.append((f"zk-test-server {name}", _summary(server)))


def _servers(item: Any) -> Dict[str, TestServer]:
    """Returns the servers among the fixtures of a test. A `unittest.TestCase` has none."""
    values = getattr(item, "funcargs", None) or {}
    return {name: one for name, one in values.items() if isinstance(one, TestServer)}


def _summary(server: TestServer) -> str:
    try:
        journal, probe = server.journal(), server.probe()
    except ZkTestServerError as error:
        return str(error)
    lines = [f"fault at {entry.at:.3f} s: {entry.fault}" for entry in journal]
    lines += [f"node {node.path} = {node.data!r}" for node in probe.nodes]
    for session in probe.sessions:
        state = "connected" if session.connected else "disconnected"
        lines.append(f"session {session.session:#x}: {state}, owns {list(session.ephemerals)}")
    lines += [f"watch {one.kind} on {one.path} of {one.session:#x}" for one in probe.watches]
    return "\n".join(lines)
