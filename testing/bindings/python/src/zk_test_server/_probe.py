"""The state of a server, as `probe`, `info` and `journal` return it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from ._values import SessionLike, data_of, session_id, session_text

__all__ = ["Info", "JournalEntry", "Member", "Node", "Probe", "Session", "Watch"]


@dataclass(frozen=True)
class Node:
    """A node. Transaction ids are integers; `ttl` is in seconds."""

    path: str
    #: None for a node without data, which is not the same as empty data.
    data: Optional[bytes]
    version: int
    cversion: int
    czxid: int
    mzxid: int
    pzxid: int
    #: The session of an ephemeral node, as in kazoo: a signed integer of 64 bits.
    owner: Optional[int]
    container: bool
    ttl: Optional[float]
    #: The number of children.
    children: int


@dataclass(frozen=True)
class Session:
    """An open session. `timeout` is the granted one, in seconds."""

    #: As in kazoo's `client_id[0]`: a signed integer of 64 bits.
    session: int
    timeout: float
    #: True while the session has a connection.
    connected: bool
    #: The paths of its ephemeral nodes.
    ephemerals: Tuple[str, ...]
    #: Its authenticated identities.
    identities: Tuple[str, ...]


@dataclass(frozen=True)
class Watch:
    """A watch of a session on a path."""

    session: int
    path: str
    kind: str


@dataclass(frozen=True)
class Probe:
    """The state of a server at one time."""

    #: The last transaction.
    zxid: int
    #: The number of connections since the start.
    connections: int
    #: The number of notifications of watches since the start.
    notifications: int
    #: Sorted by path. Without `/zookeeper` and the nodes below.
    nodes: Tuple[Node, ...]
    sessions: Tuple[Session, ...]
    watches: Tuple[Watch, ...]
    #: The number of requests since the start, by operation.
    requests: Dict[str, int]

    def node(self, path: str) -> Optional[Node]:
        """Returns a node; None if it does not exist."""
        return next((node for node in self.nodes if node.path == path), None)

    def exists(self, path: str) -> bool:
        """Returns True if the node exists."""
        return self.node(path) is not None

    def paths(self) -> List[str]:
        """Returns the paths of all nodes, sorted."""
        return [node.path for node in self.nodes]

    def children(self, path: str) -> List[str]:
        """Returns the names of the children of a node, sorted."""
        start = path.rstrip("/") + "/"
        below = (node.path[len(start) :] for node in self.nodes if node.path.startswith(start))
        return sorted(name for name in below if name and "/" not in name)

    def session(self, session: SessionLike) -> Optional[Session]:
        """Returns a session by its id or its kazoo client; None if it has ended."""
        wanted = session_id(session_text(session, "session"))
        return next((one for one in self.sessions if one.session == wanted), None)

    def watches_on(self, path: str) -> List[Watch]:
        """Returns the watches on a path."""
        return [watch for watch in self.watches if watch.path == path]


@dataclass(frozen=True)
class Member:
    """A member of an ensemble."""

    #: `host:port`.
    address: str
    #: `standalone`, `leader`, `follower`, `read-only`, `looking` or `stopped`.
    role: str
    #: The number of transactions that it has not applied yet.
    behind: int


@dataclass(frozen=True)
class Info:
    """The members of a server or an ensemble."""

    connect_string: str
    #: The number of the leader; None if there is none.
    leader: Optional[int]
    members: Tuple[Member, ...]


@dataclass(frozen=True)
class JournalEntry:
    """A fault that was caused. `at` is in seconds since the start."""

    at: float
    #: None if the fault was about all members.
    member: Optional[int]
    fault: str


def probe_of(json: Dict[str, Any]) -> Probe:
    """Returns the probe of a response. Unknown fields of later versions are ignored."""
    return Probe(
        zxid=int(json["zxid"], 16),
        connections=json["connections"],
        notifications=json["notifications"],
        nodes=tuple(_node_of(node) for node in json["nodes"]),
        sessions=tuple(_session_of(session) for session in json["sessions"]),
        watches=tuple(
            Watch(session_id(watch["session"]), watch["path"], watch["kind"])
            for watch in json["watches"]
        ),
        requests=dict(json["requests"]),
    )


def _node_of(json: Dict[str, Any]) -> Node:
    return Node(
        path=json["path"],
        data=data_of(json["data"]),
        version=json["version"],
        cversion=json["cversion"],
        czxid=int(json["czxid"], 16),
        mzxid=int(json["mzxid"], 16),
        pzxid=int(json["pzxid"], 16),
        owner=None if json["owner"] is None else session_id(json["owner"]),
        container=json["container"],
        ttl=None if json["ttl_ms"] is None else json["ttl_ms"] / 1000,
        children=json["children"],
    )


def _session_of(json: Dict[str, Any]) -> Session:
    return Session(
        session=session_id(json["session"]),
        timeout=json["timeout_ms"] / 1000,
        connected=json["connected"],
        ephemerals=tuple(json["ephemerals"]),
        identities=tuple(json["identities"]),
    )


def info_of(json: Dict[str, Any]) -> Info:
    """Returns the members of a response."""
    members = (Member(one["address"], one["role"], one["behind"]) for one in json["members"])
    return Info(json["connect_string"], json["leader"], tuple(members))


def journal_of(json: Dict[str, Any]) -> List[JournalEntry]:
    """Returns the faults of a response."""
    return [
        JournalEntry(entry["at_ms"] / 1000, entry["member"], entry["fault"])
        for entry in json["entries"]
    ]
