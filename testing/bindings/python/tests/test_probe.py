"""Nodes, sessions and watches, as the server has them."""

from __future__ import annotations

from typing import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.watchers import DataWatch

from zk_test_server import TestServer, WaitTimeout

Connect = Callable[..., KazooClient]


def test_probe_shows_nodes(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/a", b"\x00\xff")
    zk_client.set("/a", b"two")
    zk_client.create("/a/mine", ephemeral=True)
    probe = zk_server.probe()
    node, mine = probe.node("/a"), probe.node("/a/mine")
    assert node is not None and mine is not None
    stat = zk_client.get("/a")[1]
    assert (node.data, node.version, node.children) == (b"two", 1, 1)
    assert (node.czxid, node.mzxid, node.pzxid) == (stat.czxid, stat.mzxid, stat.pzxid)
    assert (node.owner, mine.owner) == (None, zk_client.client_id[0])
    assert probe.zxid == stat.pzxid
    assert probe.children("/a") == ["mine"]
    assert probe.exists("/a/mine") and not probe.exists("/b")
    assert probe.requests["create"] == 2


def test_probe_shows_sessions(zk_server: TestServer, zk_connect: Connect) -> None:
    client = zk_connect(timeout=5, auth_data=[("digest", "me:secret")])
    client.create("/mine", ephemeral=True)
    session = zk_server.probe().session(client)
    assert session is not None
    assert (session.session, session.timeout) == (client.client_id[0], 5)
    assert session.connected and session.ephemerals == ("/mine",)
    assert any("me" in identity for identity in session.identities)
    client.stop()
    zk_server.until_sessions(0)


def test_probe_shows_watches(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/config")
    DataWatch(zk_client, "/config", lambda data, stat: None)
    zk_server.until_watches("/config")
    (watch,) = zk_server.probe().watches_on("/config")
    assert (watch.session, watch.kind) == (zk_client.client_id[0], "data")
    notifications = zk_server.probe().notifications
    zk_client.set("/config", b"new")
    # The watch has fired, and the client has set it again.
    zk_server.until_watches("/config")
    assert zk_server.probe().notifications > notifications


def test_waits_end_when_the_state_is_reached(
    zk_server: TestServer, zk_client: KazooClient
) -> None:
    zk_client.create("/a")
    zk_client.create("/a/b")
    assert zk_server.until_exists("/a") >= 0
    assert zk_server.until_children("/a", 1) >= 0
    assert zk_server.until_sessions(1) >= 0
    with pytest.raises(WaitTimeout, match="/a"):
        zk_server.until_absent("/a", timeout=0.05)
    zk_client.delete("/a", recursive=True)
    assert zk_server.until_absent("/a") >= 0


def test_waits_without_a_time_look_once(zk_server: TestServer) -> None:
    zk_server.until_sessions(0, timeout=0)
    with pytest.raises(WaitTimeout):
        zk_server.until_exists("/a", timeout=0)


def test_disconnected_session_is_shown(
    zk_server: TestServer, zk_connect: Connect
) -> None:
    client = zk_connect(timeout=30)
    session = client.client_id[0]
    with zk_server.add_rule("disconnect"):
        zk_server.disconnect(client)
        zk_server.until_session_disconnected(session)
    zk_server.until_session_connected(session)
