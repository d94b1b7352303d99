"""The pytest plugin. Installing the package activates it.

Fixtures: `zk_server`, `zk_shared_server`, `zk_cluster`, `zk_connect`, `zk_client`.
Markers: `@pytest.mark.zk_server(...)` and `@pytest.mark.zk_cluster(...)` have the arguments of
`TestServer` and of `TestCluster`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterator, Type, TypeVar

import pytest

from ._server import TestCluster, TestServer
from .errors import ZkTestServerError

if TYPE_CHECKING:
    from kazoo.client import KazooClient


# The servers of the fixtures that are open. Those that a test has got by `getfixturevalue` are not
# among its fixtures.
_OPEN: pytest.StashKey[Dict[str, TestServer]] = pytest.StashKey()
# The calls to each server before the test.
_CALLS: pytest.StashKey[Dict[str, int]] = pytest.StashKey()
_SHARED = "zk_shared_server"


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers."""
    config.stash[_OPEN] = {}
    for name, of in (("zk_server", "TestServer"), ("zk_cluster", "TestCluster")):
        config.addinivalue_line(
            "markers", f"{name}(*args, **options): the arguments of {of} for the fixture {name}"
        )


_S = TypeVar("_S", bound=TestServer)


@contextmanager
def _started(request: pytest.FixtureRequest, name: str, kind: Type[_S]) -> Iterator[_S]:
    # The node of a fixture of the session has no markers.
    marker = request.node.get_closest_marker(name)
    open_servers = request.config.stash[_OPEN]
    with kind(*marker.args, **marker.kwargs) if marker else kind() as server:
        open_servers[name] = server
        try:
            yield server
        finally:
            del open_servers[name]


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
def zk_shared_server(request: pytest.FixtureRequest) -> Generator[TestServer, None, None]:
    """Returns the server that all tests of this process share.

    `reset` ends all faults after each test that uses it. Nodes and sessions stay: each test needs
    paths of its own, for example a chroot in its connect string.
    """
    with _started(request, _SHARED, TestServer) as server:
        yield server


@pytest.fixture(autouse=True)
def _zk_reset(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    # Automatic fixtures are set up first and end last, after the clients of the test.
    servers = request.config.stash[_OPEN]
    calls = {name: server._calls_so_far() for name, server in servers.items()}
    request.node.stash[_CALLS] = calls
    yield
    # A test can have got it without naming it among its fixtures.
    if _SHARED in servers:
        servers[_SHARED].reset()


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
        for one in {server, *request.config.stash[_OPEN].values()}:
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


def _servers(item: pytest.Item) -> Dict[str, TestServer]:
    """Returns the servers that a test has used: its fixtures, and those that it has called."""
    # A `unittest.TestCase` has no fixtures of its own.
    values = getattr(item, "funcargs", None) or {}
    servers = {name: one for name, one in values.items() if isinstance(one, TestServer)}
    before = item.stash.get(_CALLS, {})
    for name, server in item.config.stash[_OPEN].items():
        if server._calls_so_far() != before.get(name):
            servers.setdefault(name, server)
    return servers


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
