"""Programs that break the protocol, and values that do not fit it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

from zk_test_server import (
    BadRequest,
    BinaryNotFound,
    Delay,
    MalformedResponse,
    NoResponse,
    NoSuchSession,
    ServerEnded,
    StartFailed,
    TestServer,
    ZkTestServerError,
    _server,
)
from zk_test_server._values import millis, session_id, session_text

Use = Callable[[str], None]


def test_program_that_is_never_ready_is_ended(fake_program: Use) -> None:
    fake_program("silent")
    with pytest.raises(StartFailed, match="not ready within 0.2 s") as failed:
        TestServer(start_timeout=0.2)
    assert failed.value.code == "start_failed"


def test_start_of_no_program_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    not_executable = tmp_path / "text"
    not_executable.write_text("")
    monkeypatch.setenv("ZK_TEST_SERVER_BIN", str(not_executable))
    with pytest.raises(StartFailed, match="cannot run"):
        TestServer()
    monkeypatch.setenv("ZK_TEST_SERVER_BIN", str(tmp_path / "none"))
    with pytest.raises(BinaryNotFound, match="ZK_TEST_SERVER_BIN"):
        TestServer()


def test_missing_response_is_an_error(
    fake_program: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_program("mute")
    with TestServer() as server:
        monkeypatch.setattr(_server, "RESPONSE_TIMEOUT", 0.2)
        with pytest.raises(NoResponse, match="probe: no response within 0.2 s"):
            server.probe()
        server.reset()  # On another connection.


@pytest.mark.parametrize("how", ["garbage", "wrong_id", "no_fields"])
def test_response_of_another_form_is_an_error(fake_program: Use, how: str) -> None:
    fake_program(how)
    with TestServer() as server:
        with pytest.raises(MalformedResponse, match="probe: unexpected"):
            server.probe()
        server.reset()


def test_half_a_response_is_an_error(fake_program: Use) -> None:
    fake_program("half_line")
    with TestServer() as server:
        with pytest.raises(ServerEnded, match="probe: "):
            server.probe()
        server.reset()


def test_error_without_an_id_closes_the_connection(fake_program: Use) -> None:
    fake_program("no_id")
    with TestServer() as server:
        with pytest.raises(BadRequest, match="not JSON"):
            server.probe()
        server.reset()


def test_error_code_of_a_later_version_is_kept(fake_program: Use) -> None:
    fake_program("later")
    with TestServer() as server, pytest.raises(ZkTestServerError) as failed:
        server.probe()
    assert (failed.value.code, failed.value.call) == ("too_hot", "probe")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, 0), (0.1 + 0.2, 300), (1.5, 1500), (0.0001, 1), (4294967.295, 2**32 - 1)],
)
def test_durations_are_rounded_up_to_milliseconds(seconds: float, expected: int) -> None:
    assert millis(seconds, "advance") == expected


@pytest.mark.parametrize("seconds", [-0.001, float("nan"), float("inf"), 4294967.296])
def test_durations_out_of_range_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="advance: .* is not a duration"):
        millis(seconds, "advance")


@pytest.mark.parametrize(
    ("session", "text", "signed"),
    [
        (0x1000, "0x1000", 0x1000),
        (-1, "0xffffffffffffffff", -1),
        (2**63, "0x8000000000000000", -(2**63)),
        (2**63 - 1, "0x7fffffffffffffff", 2**63 - 1),
    ],
)
def test_sessions_are_unsigned_in_the_protocol(session: int, text: str, signed: int) -> None:
    assert session_text(session, "expire") == text
    assert session_id(text) == signed


def test_sessions_that_are_none_are_refused() -> None:
    class Unconnected:
        client_id = None

    with pytest.raises(NoSuchSession, match="has no session yet"):
        session_text(Unconnected(), "expire")
    with pytest.raises(TypeError, match="not str"):
        session_text("0x1000", "expire")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="64 bits"):
        session_text(2**64, "expire")


def test_module_without_a_program_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zk_test_server", "--version"],
        env={**os.environ, "ZK_TEST_SERVER_BIN": str(tmp_path / "none")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "ZK_TEST_SERVER_BIN names" in done.stderr


def test_delays_are_checked_before_the_call(fake_program: Use) -> None:
    fake_program("mute")
    with TestServer() as server, pytest.raises(ValueError, match="add_rule"):
        server.add_rule(Delay(-1))
