"""Locks of kazoo under faults."""

from __future__ import annotations

import threading
from typing import Any, Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KazooState

from zk_test_server import NoSuchSession, TestServer

Connect = Callable[..., KazooClient]


def test_lock_survives_a_lost_reply_to_its_create(
    zk_server: TestServer, zk_client: KazooClient
) -> None:
    lost = zk_server.add_rule("lose_reply", "create", under="/locks", times=1)
    lock = zk_client.Lock("/locks", "me")
    assert lock.acquire(timeout=30)
    # kazoo has found the node of the lost reply, and has not created a second one.
    assert lost.hits == 1
    assert len(zk_server.probe().children("/locks")) == 1
    lock.release()
    zk_server.until_children("/locks", 0)


def test_second_create_loses_its_reply(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/locks")
    zk_server.add_rule("lose_reply", "create", under="/locks", after=1, times=1)
    zk_client.create("/locks/a")
    with pytest.raises(ConnectionLoss):
        zk_client.create("/locks/b")
    # It was applied all the same.
    assert zk_server.probe().children("/locks") == ["a", "b"]
    zk_client.retry(zk_client.create, "/locks/c")


def test_lost_request_is_not_applied(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/locks")
    with zk_server.add_rule("lose_request", "create", under="/locks") as lost:
        with pytest.raises(ConnectionLoss):
            zk_client.create("/locks/a")
    assert (lost.hits, zk_server.probe().children("/locks")) == (1, [])


def test_expiry_passes_a_held_lock_on(
    zk_server: TestServer, zk_connect: Connect, states: Any
) -> None:
    holder, waiter = zk_connect(), zk_connect()
    seen = states(holder)
    held, wanted = holder.Lock("/locks", "holder"), waiter.Lock("/locks", "waiter")
    assert held.acquire(timeout=30)
    acquired = []
    thread = threading.Thread(target=lambda: acquired.append(wanted.acquire(timeout=30)))
    thread.start()
    zk_server.until_children("/locks", 2)
    old = holder.client_id[0]

    zk_server.expire(holder)
    thread.join(30)
    assert acquired == [True]
    zk_server.until_session_ended(old)
    assert zk_server.probe().session(old) is None
    # The holder learns of it, and has to stop.
    seen.until(KazooState.LOST)
    with pytest.raises(NoSuchSession, match="expire: "):
        zk_server.expire(old)


def test_lock_is_kept_through_a_disconnect(
    zk_server: TestServer, zk_connect: Connect, states: Any
) -> None:
    client = zk_connect()
    seen = states(client)
    with client.Lock("/locks"):
        before = client.client_id
        assert zk_server.disconnect(client) == 1
        seen.until(KazooState.SUSPENDED)
        seen.until(KazooState.CONNECTED)
        zk_server.until_session_connected(client)
        assert client.client_id == before
        assert len(zk_server.probe().children("/locks")) == 1
