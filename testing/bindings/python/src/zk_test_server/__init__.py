"""ZooKeeper servers and ensembles in memory for tests, with faults on demand.

>>> from zk_test_server import TestServer
>>> with TestServer() as server:
...     client = KazooClient(server.connect_string)
...     server.add_rule("lose_reply", "create", under="/locks", after=1, times=1)
"""

from ._async import AsyncFault, AsyncRule, AsyncTestCluster, AsyncTestServer
from ._binary import find_binary
from ._probe import Info, JournalEntry, Member, Node, Probe, Session, Watch
from ._rules import Delay, Fault, Operation, Refuse, Rule, Verdict
from ._server import TestCluster, TestServer
from ._values import ALL, All, MemberLike, SessionLike
from .errors import (
    BadRequest,
    BinaryNotFound,
    CallFailed,
    MalformedResponse,
    NoResponse,
    NoSuchLag,
    NoSuchMember,
    NoSuchNode,
    NoSuchRule,
    NoSuchSession,
    NotFound,
    ServerEnded,
    StartFailed,
    Unauthorized,
    Unsupported,
    UnsupportedVersion,
    WaitTimeout,
    ZkTestServerError,
)

__all__ = [
    "ALL",
    "All",
    "AsyncFault",
    "AsyncRule",
    "AsyncTestCluster",
    "AsyncTestServer",
    "BadRequest",
    "BinaryNotFound",
    "CallFailed",
    "Delay",
    "Fault",
    "Info",
    "JournalEntry",
    "MalformedResponse",
    "Member",
    "MemberLike",
    "NoResponse",
    "NoSuchLag",
    "NoSuchMember",
    "NoSuchNode",
    "NoSuchRule",
    "NoSuchSession",
    "Node",
    "NotFound",
    "Operation",
    "Probe",
    "Refuse",
    "Rule",
    "ServerEnded",
    "Session",
    "SessionLike",
    "StartFailed",
    "TestCluster",
    "TestServer",
    "Unauthorized",
    "Unsupported",
    "UnsupportedVersion",
    "Verdict",
    "WaitTimeout",
    "Watch",
    "ZkTestServerError",
    "find_binary",
]
