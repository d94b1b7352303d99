"""Faults of a single server."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NotReadOnlyCallError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Create
from kazoo.protocol.states import KazooState
from kazoo.security import OPEN_ACL_UNSAFE

from zk_test_server import (
    BadRequest,
    Delay,
    NoSuchMember,
    NoSuchNode,
    NoSuchRule,
    Refuse,
    TestServer,
    WaitTimeout,
)

Connect = Callable[..., KazooClient]


def test_partition_expires_sessions(
    zk_server: TestServer, zk_connect: Connect, states: Any
) -> None:
    client = zk_connect(timeout=4)
    seen = states(client)
    client.create("/mine", ephemeral=True)
    session = client.client_id[0]
    with zk_server.partition():
        seen.until(KazooState.SUSPENDED)
        zk_server.until_session_ended(session)
        zk_server.until_absent("/mine")
    seen.until(KazooState.LOST)
    seen.until(KazooState.CONNECTED)
    client.retry(client.create, "/mine", ephemeral=True)


def test_removed_delay_holds_no_request(zk_server: TestServer, zk_client: KazooClient) -> None:
    for end in ("remove", "remove_rules", "reset"):
        rule = zk_server.add_rule(Delay(10**6), "create")
        pending = zk_client.create_async(f"/{end}")
        rule.until_hit()
        getattr(rule if end == "remove" else zk_server, end)()
        assert pending.get(timeout=30) == f"/{end}"


def test_rule_without_an_effect_is_refused(zk_server: TestServer) -> None:
    with pytest.raises(BadRequest):
        zk_server.add_rule("disconnect", times=0)
    with pytest.raises(BadRequest):
        zk_server.add_rule("disconnect", under="/a/*")
    missing: Any = None
    with pytest.raises(BadRequest):
        zk_server.add_rule(missing)


def test_paused_server_answers_later(zk_server: TestServer, zk_client: KazooClient) -> None:
    with zk_server.pause():
        pending = zk_client.create_async("/a")
        with pytest.raises(KazooTimeoutError):
            pending.get(timeout=0.5)
        assert not zk_server.probe().exists("/a")
    assert pending.get(timeout=30) == "/a"


def test_sessions_do_not_expire_while_paused(
    zk_server: TestServer, zk_connect: Connect, states: Any
) -> None:
    client = zk_connect(timeout=4)
    seen = states(client)
    before = client.client_id
    with zk_server.pause():
        # The client hears nothing for most of its session timeout.
        seen.until(KazooState.SUSPENDED)
    zk_server.until_session_connected(before[0])
    assert zk_server.probe().session(before[0]) is not None


def test_stopped_server_keeps_its_data(
    zk_server: TestServer, zk_client: KazooClient, states: Any
) -> None:
    seen = states(zk_client)
    zk_client.create("/a", b"kept")
    with zk_server.stop():
        seen.until(KazooState.SUSPENDED)
        assert zk_server.info().members[0].role == "stopped"
    assert zk_client.retry(zk_client.get, "/a")[0] == b"kept"
    assert zk_server.info().members[0].role == "standalone"


def test_restart_ends_connections(
    zk_server: TestServer, zk_client: KazooClient, states: Any
) -> None:
    seen = states(zk_client)
    connections = zk_server.probe().connections
    zk_server.restart()
    seen.until(KazooState.SUSPENDED)
    zk_client.retry(zk_client.create, "/a")
    assert zk_server.probe().connections > connections


def test_read_only_server_refuses_writes(zk_server: TestServer, zk_connect: Connect) -> None:
    with zk_server.set_read_only():
        client = zk_connect(read_only=True)
        assert client.get_children("/") == ["zookeeper"]
        with pytest.raises(NotReadOnlyCallError):
            client.create("/a")
        assert zk_server.info().members[0].role == "read-only"
    assert zk_server.info().members[0].role == "standalone"


def test_refused_requests_have_the_error(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/secret")
    with zk_server.add_rule(Refuse("no_auth"), ["create", "delete"], path="/secret/**"):
        for operation in (zk_client.create, zk_client.delete):
            with pytest.raises(NoAuthError):
                operation("/secret/a")
        with pytest.raises(NoAuthError):
            zk_client.create("/secret/a/b")
    zk_client.create("/secret/a")


def test_delayed_requests_arrive(zk_server: TestServer, zk_client: KazooClient) -> None:
    with zk_server.add_rule(Delay(0.05), "create") as slow:
        assert zk_client.create("/a") == "/a"
    assert slow.hits == 1


def test_rule_of_one_session_spares_others(zk_server: TestServer, zk_connect: Connect) -> None:
    one, other = zk_connect(), zk_connect()
    zk_server.add_rule(Refuse(-112), "create", session=one)
    other.create("/a")
    with pytest.raises(Exception) as failed:
        one.create("/b")
    assert type(failed.value).__name__ == "SessionExpiredError"


def test_rule_waits_for_its_hits(zk_server: TestServer, zk_client: KazooClient) -> None:
    rule = zk_server.add_rule("lose_reply", "create", path="/a", times=2)
    zk_client.create_async("/a")
    rule.until_hit()
    with pytest.raises(WaitTimeout) as late:
        rule.until_hit(2, timeout=0.05)
    assert (late.value.code, late.value.call) == ("timeout", "until")
    assert rule.remove() == rule.remove() == rule.hits == 1


def test_rules_of_reset_are_gone(zk_server: TestServer) -> None:
    with zk_server.add_rule("disconnect", "create", name="mine") as rule:
        zk_server.reset()
        with pytest.raises(NoSuchRule):
            assert rule.hits == 0
        assert zk_server.add_rule("disconnect", "create", name="mine").hits == 0
        zk_server.remove_rules()


def test_rules_with_wrong_parameters_are_refused(zk_server: TestServer) -> None:
    with pytest.raises(BadRequest):
        zk_server.add_rule("lose_replies", "create")  # type: ignore[arg-type]
    with pytest.raises(BadRequest):
        zk_server.add_rule("lose_reply", "creates")  # type: ignore[arg-type]
    with pytest.raises(BadRequest):
        zk_server.add_rule("lose_reply", path="locks")
    zk_server.add_rule("lose_reply", "create", name="same")
    with pytest.raises(BadRequest, match="same"):
        zk_server.add_rule("lose_reply", "create", name="same")


def test_single_server_has_one_member(zk_server: TestServer) -> None:
    with zk_server.pause(0):
        pass
    with pytest.raises(NoSuchMember):
        zk_server.stop(1)


def test_time_passes_for_sessions(zk_server: TestServer, zk_connect: Connect) -> None:
    client = zk_connect(timeout=10)
    client.create("/mine", ephemeral=True)
    session = client.client_id[0]
    zk_server.advance(60)
    zk_server.until_session_ended(session)
    assert not zk_server.probe().exists("/mine")


class CreateContainer(Create):  # type: ignore[misc]
    """A request that kazoo does not have."""

    type = 19


# The server removes containers only when it is told to.
@pytest.mark.zk_server(options=["--container-interval", "3600000"])
def test_containers_are_reaped(zk_server: TestServer, zk_client: KazooClient) -> None:
    created = zk_client.handler.async_result()
    zk_client._call(CreateContainer("/box", b"", OPEN_ACL_UNSAFE, 4), created)
    created.get(timeout=30)
    zk_client.create("/box/a")
    box = zk_server.probe().node("/box")
    assert box is not None and box.container
    assert zk_server.reap_containers() == []
    zk_client.delete("/box/a")
    assert zk_server.reap_containers() == ["/box"]
    assert not zk_server.probe().exists("/box")


def test_versions_and_sequences_are_set(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/a")
    zk_server.set_version("/a", 2**31 - 1)
    assert zk_client.get("/a")[1].version == 2**31 - 1
    zk_server.set_sequence("/a", 41)
    assert zk_client.create("/a/n-", sequence=True) == "/a/n-0000000041"
    with pytest.raises(NoSuchNode):
        zk_server.set_version("/none", 1)


def test_removed_nodes_name_their_owners(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/a/b", ephemeral=True, makepath=True)
    assert zk_server.remove("/a") == [zk_client.client_id[0]]
    assert zk_server.probe().paths() in ([], ["/"])
    with pytest.raises(NoSuchNode):
        zk_server.remove("/a")


def test_wall_clock_changes_times_of_nodes(zk_server: TestServer, zk_client: KazooClient) -> None:
    zk_client.create("/now")
    zk_server.shift_wall_clock(-3600)
    zk_client.create("/before")
    assert zk_client.get("/before")[1].ctime < zk_client.get("/now")[1].ctime
    zk_server.shift_wall_clock(7200)
    zk_client.create("/after")
    assert zk_client.get("/after")[1].ctime > zk_client.get("/now")[1].ctime


def test_journal_names_the_faults(zk_server: TestServer) -> None:
    with zk_server.partition():
        pass
    entries = zk_server.journal()
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    assert any("partition" in entry.fault for entry in entries)
