"""Fixtures of all tests. `zk_server` and the others come from the installed package."""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

FAKE = Path(__file__).with_name("fake_program.py")
# A test that hangs prints where, and ends the run.
HANGS_AFTER = 150


class States:
    """The states of a client in order, to wait for."""

    def __init__(self, client: KazooClient) -> None:
        self._condition = client.handler.lock_object()
        self._seen: List[str] = []
        self._events = {
            state: client.handler.event_object()
            for state in (KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED)
        }
        client.add_listener(self._listen)

    def _listen(self, state: str) -> None:
        self._seen.append(state)
        self._events[state].set()

    def until(self, state: str) -> None:
        """Waits until the client has had this state since it was listened to."""
        assert self._events[state].wait(30), f"{state} is not among {self._seen}"


@pytest.fixture(autouse=True)
def _limit() -> object:
    faulthandler.dump_traceback_later(HANGS_AFTER, exit=True, file=2)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def states() -> Callable[[KazooClient], States]:
    return States


@pytest.fixture
def fake_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Replaces the program by one that follows a script, see `fake_program.py`."""

    def use(script: str) -> None:
        program = tmp_path / "zk-test-server"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" {script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("ZK_TEST_SERVER_BIN", str(program))

    return use
