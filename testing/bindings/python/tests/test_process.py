"""The life of the process: its start, its options, and its end with the tests."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator, Tuple

import pytest
from kazoo.client import KazooClient

from zk_test_server import (
    NoSuchRule,
    ServerEnded,
    StartFailed,
    TestServer,
    WaitTimeout,
    find_binary,
)
from zk_test_server._connection import Connection

STARTS_AND_WAITS = """
import sys
from zk_test_server import TestServer
server = TestServer()
print(server.connect_string, flush=True)
sys.stdin.read()
"""


# The forked process waits for the end of a pipe.
FORKS = """
import os
import sys
from zk_test_server import TestServer
server = TestServer()
if os.fork() == 0:
    os.read(int(sys.argv[1]), 1)
    os._exit(0)
print(server.connect_string, flush=True)
sys.stdin.readline()
signals = []
program = server._process._process
send = program.send_signal
program.send_signal = lambda signal: (signals.append(signal), send(signal))
server.close()
print(f"closed with {signals}" if signals else "closed without a signal", flush=True)
"""


def connect(server_address: str) -> socket.socket:
    host, port = server_address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), 30)
    connection.settimeout(30)
    return connection


def ended(connection: socket.socket) -> bool:
    """Waits until the process at the other end has closed the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def refused(server_address: str) -> bool:
    """Waits until nothing listens on the port, which can accept longer than connections last."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with connect(server_address) as connection:
                ended(connection)
        except ConnectionRefusedError:
            return True
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_server_ends_with_the_test_process(how: int) -> None:
    tests = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with tests:
        assert tests.stdin is not None and tests.stdout is not None
        address = tests.stdout.readline().strip()
        with connect(address) as connection:
            if how is None:
                tests.stdin.close()
            else:
                tests.send_signal(how)
            assert tests.wait(30) == (0 if how is None else -how)
            assert ended(connection)
    assert refused(address)


def test_ctrl_c_does_not_end_the_server() -> None:
    # Ctrl-C goes to the process group of the terminal.
    with TestServer() as server:
        assert os.getpgid(server.pid) != os.getpgrp()


def test_close_ends_the_program() -> None:
    server = TestServer()
    with connect(server.connect_string) as connection:
        server.close()
        assert ended(connection)
    server.close()
    with pytest.raises(ServerEnded, match="probe: the server was closed"):
        server.probe()


def test_faults_and_rules_end_after_the_server() -> None:
    with TestServer() as server:
        with server.pause(), server.add_rule("lose_reply", "create"):
            server.close()


def test_end_of_the_program_is_reported() -> None:
    with TestServer() as server, connect(server.connect_string) as connection:
        os.kill(server.pid, signal.SIGKILL)
        assert ended(connection)
        with pytest.raises(ServerEnded, match="probe: .* exit code -9"):
            server.probe()


def test_errors_of_the_program_are_in_the_message() -> None:
    with pytest.raises(StartFailed, match=r"exit code 2: .*--no-such-option"):
        TestServer(options=["--no-such-option"])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_process_uses_the_server_too() -> None:
    with TestServer() as server:
        server.probe()  # Leaves a connection, which the other process must not use.
        context = multiprocessing.get_context("fork")
        both, results = context.Barrier(2), context.Queue()

        def calls() -> None:
            both.wait(30)
            for _ in range(200):
                server.probe()

        def child() -> None:
            calls()
            server.close()
            results.put("done")

        process = context.Process(target=child)
        process.start()
        calls()
        assert results.get(timeout=30) == "done"
        process.join(30)
        assert process.exitcode == 0
        # The other process has closed its connections, and not the server.
        server.probe()


@pytest.fixture
def forked() -> Iterator[Tuple[subprocess.Popen[str], str]]:
    """A test process, whose forked process lives until the fixture ends, and its server."""
    waits, ends = os.pipe()
    tests = subprocess.Popen(
        [sys.executable, "-c", FORKS, str(waits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[waits],
        text=True,
    )
    os.close(waits)
    with tests:
        assert tests.stdout is not None
        yield tests, tests.stdout.readline().strip()
        os.close(ends)
        tests.kill()


def test_forked_process_does_not_keep_the_server_of_a_killed_process(
    forked: Tuple[subprocess.Popen[str], str],
) -> None:
    tests, address = forked
    with connect(address) as connection:
        tests.kill()
        tests.wait(30)
        assert ended(connection)
    assert refused(address)


def test_forked_process_does_not_keep_a_closed_server(
    forked: Tuple[subprocess.Popen[str], str],
) -> None:
    tests, _ = forked
    assert tests.stdin is not None and tests.stdout is not None
    print("close", file=tests.stdin, flush=True)
    assert tests.stdout.readline() == "closed without a signal\n"


def test_threads_do_not_wait_for_each_other() -> None:
    with TestServer() as server:
        client = KazooClient(server.connect_string)
        threads = [
            threading.Thread(target=server.until_exists, args=("/a",), kwargs={"timeout": 30})
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        client.start()
        client.create("/a")
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        client.stop()
        client.close()


def test_more_calls_than_connections_wait_for_each_other() -> None:
    def waits(server: TestServer) -> None:
        with pytest.raises(WaitTimeout):
            server.until_exists("/a", timeout=1)

    # More than the program accepts connections.
    with TestServer() as server, ThreadPoolExecutor(100) as threads:
        for wait in [threads.submit(waits, server) for _ in range(100)]:
            wait.result(60)
        server.probe()


def test_waits_leave_room_for_the_call_that_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 40
    full = threading.Semaphore(0)
    call = Connection.call

    def counted(connection: Connection, name: str, *rest: Any) -> Any:
        if name == "until":
            full.release()
        return call(connection, name, *rest)

    monkeypatch.setattr(Connection, "call", counted)
    with TestServer() as server, ThreadPoolExecutor(2 * most) as threads:
        rule = server.add_rule("disconnect")
        waits = [threads.submit(rule.until_hit) for _ in range(2 * most)]
        for _ in range(most):
            assert full.acquire(timeout=30)
        rule.remove()
        for wait in waits:
            assert isinstance(wait.exception(timeout=30), NoSuchRule)


def test_data_outlives_the_server(tmp_path: Path) -> None:
    for expected in (None, b"kept"):
        with TestServer(data_dir=tmp_path) as server:
            node = server.probe().node("/a")
            assert (node and node.data) == expected
            client = KazooClient(server.connect_string)
            client.start()
            client.ensure_path("/a")
            client.set("/a", b"kept")
            client.stop()
            client.close()


def test_module_runs_the_program() -> None:
    by_module = [sys.executable, "-m", "zk_test_server", "--version"]
    module = subprocess.run(by_module, capture_output=True, text=True, check=True)
    program = subprocess.run(
        [find_binary(), "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == program.stdout
    assert module.stdout.startswith("zk-test-server ")


def test_options_are_passed_on() -> None:
    with TestServer(
        tick=0.05,
        min_session_timeout=0.15,
        max_session_timeout=0.5,
        zookeeper_version="3.8",
        options=["--container-interval", "60000"],
    ) as server:
        client = KazooClient(server.connect_string, timeout=30)
        client.start()
        (session,) = server.probe().sessions
        assert session.timeout == 0.5
        client.stop()
        client.close()
