"""Ensembles and their faults."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from zk_test_server import BadRequest, CallFailed, NoSuchMember, TestCluster, Unsupported

Connect = Callable[..., KazooClient]


def test_change_of_leader_keeps_sessions(
    zk_cluster: TestCluster, zk_client: KazooClient, states: Any
) -> None:
    seen = states(zk_client)
    before, session = zk_cluster.leader, zk_client.client_id
    assert before is not None
    zk_client.create("/mine", ephemeral=True)
    after = zk_cluster.change_leader()
    assert after == zk_cluster.leader and after != before
    seen.until(KazooState.SUSPENDED)
    zk_client.retry(zk_client.create, "/a")
    assert zk_client.client_id == session
    assert zk_cluster.probe().exists("/mine")
    assert zk_cluster.change_leader(before) == before


def test_majority_serves_while_a_member_is_stopped(
    zk_cluster: TestCluster, zk_client: KazooClient
) -> None:
    leader = zk_cluster.leader
    assert leader is not None
    with zk_cluster.stop(leader):
        zk_cluster.until_leader()
        assert zk_cluster.leader != leader
        zk_client.retry(zk_client.create, "/a")
    assert [member.role for member in zk_cluster.info().members].count("follower") == 2


def test_no_quorum_no_leader(zk_cluster: TestCluster) -> None:
    with zk_cluster.stop(0), zk_cluster.stop(1):
        zk_cluster.until_leader(False)
        assert zk_cluster.leader is None
    zk_cluster.until_leader()


def test_leader_that_is_none_is_not_every_member(zk_cluster: TestCluster) -> None:
    with zk_cluster.stop(0), zk_cluster.stop(1):
        zk_cluster.until_leader(False)
        assert zk_cluster.leader is None
        # The types refuse it, too.
        leader: Any = zk_cluster.leader
        for call in (
            zk_cluster.stop,
            zk_cluster.start,
            zk_cluster.restart,
            zk_cluster.pause,
            zk_cluster.resume,
            zk_cluster.partition,
            zk_cluster.heal,
            zk_cluster.probe,
            zk_cluster.change_leader,
        ):
            with pytest.raises(BadRequest, match="null"):
                call(leader)
        with pytest.raises(BadRequest):
            zk_cluster.set_read_only(member=leader)
        with pytest.raises(BadRequest):
            zk_cluster.shift_wall_clock(1, member=leader)
        with pytest.raises(BadRequest):
            zk_cluster.add_rule("disconnect", member=leader)
        for session in (zk_cluster.disconnect, zk_cluster.expire):
            with pytest.raises(TypeError):
                session(leader)
        with pytest.raises(TypeError):
            zk_cluster.add_rule("disconnect", session=leader)
        roles = [member.role for member in zk_cluster.info().members]
        assert roles == ["stopped", "stopped", "looking"]


def test_minority_of_a_split_does_not_serve(zk_cluster: TestCluster) -> None:
    with zk_cluster.split([0], [1, 2]):
        zk_cluster.until_leader()
        assert zk_cluster.leader in (1, 2)
        assert zk_cluster.info().members[0].role in ("looking", "read-only")
    zk_cluster.until_leader()
    assert zk_cluster.info().members[0].role in ("leader", "follower")


def test_end_of_a_split_keeps_partitions(zk_cluster: TestCluster) -> None:
    with zk_cluster.partition(0):
        with zk_cluster.split([0], [1, 2]):
            assert zk_cluster.info().members[0].role == "looking"
        assert zk_cluster.info().members[0].role in ("leader", "follower")
        faults = [entry.fault for entry in zk_cluster.journal()]
        assert "healed" not in faults and faults[-1] == "split no more"
    assert zk_cluster.journal()[-1].fault == "healed"


def test_lagging_follower_serves_stale_reads(
    zk_cluster: TestCluster, zk_connect: Connect
) -> None:
    follower = next(member for member in range(3) if member != zk_cluster.leader)
    writer = zk_connect(hosts=zk_cluster.addresses[zk_cluster.leader or 0])
    reader = zk_connect(hosts=zk_cluster.addresses[follower])
    writer.create("/a", b"old")
    reader.sync("/a")
    with zk_cluster.lag(follower):
        writer.set("/a", b"new")
        assert reader.get("/a")[0] == b"old"
        node = zk_cluster.probe(follower).node("/a")
        assert node is not None and node.data == b"old"
        assert zk_cluster.info().members[follower].behind > 0
    reader.sync("/a")
    assert reader.get("/a")[0] == b"new"


@pytest.mark.zk_cluster(members=5)
def test_members_are_counted_by_the_marker(zk_cluster: TestCluster) -> None:
    assert len(zk_cluster.addresses) == len(zk_cluster.info().members) == 5
    assert zk_cluster.connect_string.split(",") == list(zk_cluster.addresses)
    with pytest.raises(NoSuchMember) as refused:
        zk_cluster.pause(5)
    assert refused.value.code == "no_such_member"


def test_reset_ends_all_faults(zk_cluster: TestCluster) -> None:
    zk_cluster.stop(0)
    zk_cluster.partition(1)
    zk_cluster.lag(2) if zk_cluster.leader != 2 else zk_cluster.lag(1)
    zk_cluster.reset()
    zk_cluster.until_leader()
    assert all(member.behind == 0 for member in zk_cluster.info().members)
    assert {member.role for member in zk_cluster.info().members} == {"leader", "follower"}


@pytest.mark.zk_cluster(1)
def test_ensemble_of_one_has_no_follower(zk_cluster: TestCluster) -> None:
    with pytest.raises(Unsupported):
        zk_cluster.change_leader()
    with pytest.raises(Unsupported):
        zk_cluster.lag(0)
    with pytest.raises(Unsupported):
        zk_cluster.split([0])


def test_no_leader_can_be_elected_without_a_quorum(zk_cluster: TestCluster) -> None:
    with zk_cluster.stop(0), zk_cluster.stop(1), pytest.raises(CallFailed):
        zk_cluster.change_leader()
