"""Queues of kazoo under faults."""

from __future__ import annotations

from typing import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from zk_test_server import TestServer

Connect = Callable[..., KazooClient]


def test_retried_put_with_a_lost_reply_is_there_twice(
    zk_server: TestServer, zk_client: KazooClient
) -> None:
    queue = zk_client.Queue("/queue")
    zk_client.ensure_path("/queue")
    zk_server.add_rule("lose_reply", "create", under="/queue", times=1)
    with pytest.raises(ConnectionLoss):
        queue.put(b"job")
    zk_client.retry(queue.put, b"job")
    # kazoo's Queue does not protect its nodes: the server shows what the retry has done.
    zk_server.until_children("/queue", 2)
    assert [queue.get(), queue.get()] == [b"job", b"job"]


def test_item_of_an_expired_consumer_is_delivered_again(
    zk_server: TestServer, zk_connect: Connect
) -> None:
    dying, next_one = zk_connect(), zk_connect()
    first, second = dying.LockingQueue("/jobs"), next_one.LockingQueue("/jobs")
    first.put(b"job")
    assert first.get(timeout=30) == b"job"
    zk_server.expire(dying)
    assert second.get(timeout=30) == b"job"
    assert second.consume()
    zk_server.until_children("/jobs/entries", 0)
