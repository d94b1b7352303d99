"""What a user of kazoo does, in one process against one server, written down.

Argument: HOST:PORT of a server with no nodes of its own and a tick of at most half a second. Prints a transcript
that is the same for servers that behave the same: times, session ids and the identifiers that kazoo draws are
left out, everything else is in it. Ends with the line DONE.
"""

import itertools
import logging
import threading

from kazoo.client import KazooClient
from kazoo.protocol.states import EventType
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.security import make_acl, make_digest_acl, make_digest_acl_credential

import kazoo_recipes
from kazoo_transcript import (
    HOST, PATIENCE, PORT, Relay, attempt, chapter, connect, say, settled, show, tree, until)


def operations(zk):
    chapter("operations")
    say(zk.command(b"ruok"), zk.command(b"isro"), len(zk.server_version()) >= 3)
    attempt("create", zk.create, "/ops", b"one")
    attempt("create again", zk.create, "/ops", b"two")
    attempt("create with stat", zk.create, "/ops/stat", b"three", include_data=True)
    attempt("create below nothing", zk.create, "/nothing/here")
    attempt("create with parents", zk.create, "/ops/a/b/c", b"deep", makepath=True)
    attempt("create below an ephemeral", lambda: [
        zk.create("/ops/e", b"mine", ephemeral=True), zk.create("/ops/e/child")])
    for name in ("seq-", "other-", "", "seq-"):
        attempt("sequence", zk.create, "/ops/a/" + name, b"", sequence=True)
    attempt("ephemeral sequence", zk.create, "/ops/a/es-", b"", sequence=True, ephemeral=True)
    attempt("get", zk.get, "/ops")
    attempt("get nothing", zk.get, "/nothing")
    attempt("exists", zk.exists, "/ops/e")
    attempt("exists nothing", zk.exists, "/nothing")
    attempt("set", zk.set, "/ops", b"four")
    attempt("set, right version", zk.set, "/ops", b"five", version=1)
    attempt("set, wrong version", zk.set, "/ops", b"six", version=1)
    attempt("set nothing", zk.set, "/nothing", b"")
    attempt("set to empty", zk.set, "/ops", b"")
    attempt("set, large", zk.set, "/ops", b"x" * 1_000_000)
    say("get, large", len(zk.get("/ops")[0]))
    attempt("children", lambda: sorted(zk.get_children("/ops")))
    attempt("children with stat", lambda: show(zk.get_children("/ops/a", include_data=True)[1]))
    attempt("children of nothing", zk.get_children, "/nothing")
    attempt("delete, wrong version", zk.delete, "/ops/stat", version=5)
    attempt("delete", zk.delete, "/ops/stat", version=0)
    attempt("delete again", zk.delete, "/ops/stat")
    attempt("delete with children", zk.delete, "/ops/a")
    attempt("unicode", zk.create, "/ops/\u00e4\u20ac\u732b", "\u00e4\u20ac\u732b".encode())
    attempt("dots", zk.create, "/ops/../x")
    attempt("sync", zk.sync, "/ops")
    attempt("ensure", zk.ensure_path, "/ops/p/q/r")
    attempt("reconfig", zk.reconfig, joining="server.9=localhost:1:2", leaving=None, new_members=None)
    attempt("config is read-only", zk.set, "/zookeeper/config", b"")
    attempt("system nodes", lambda: sorted(zk.get_children("/zookeeper")))
    say("in flight:", [len(answer.get(timeout=PATIENCE)) for answer in [
        zk.create_async("/ops/p/n-%03d" % number, b"") for number in range(200)]].count(12))
    names = [answer.get(timeout=PATIENCE) for answer in [
        zk.create_async("/ops/p/s-", b"", sequence=True) for _ in range(200)]]
    say("in order:", names == sorted(names), len(zk.get_children("/ops/p")))
    say("one after the other:", zk.set_async("/ops/e", b"x").get().version,
        zk.get_async("/ops/e").get()[0], zk.exists_async("/ops/e").get().version)
    attempt("delete all", zk.delete, "/ops/p", recursive=True)
    tree(zk, "/ops")
    attempt("delete all", zk.delete, "/ops", recursive=True)


def access(zk):
    chapter("access")
    alice = make_digest_acl("alice", "secret", all=True)
    reader = make_acl("world", "anyone", read=True)
    zk.add_auth("digest", "alice:secret")
    attempt("private", zk.create, "/private", b"hers", acl=[alice])
    attempt("public", zk.create, "/public", b"everybody's", acl=[alice, reader])
    attempt("creator's", zk.create, "/mine", b"", acl=[make_acl("auth", "", all=True)])
    attempt("address", zk.create, "/local", b"", acl=[make_acl("ip", "127.0.0.1", all=True)])
    attempt("bad list", zk.create, "/bad", b"", acl=[make_acl("digest", "nonsense", all=True)])
    attempt("empty list", zk.create, "/open", b"", acl=[])
    attempt("empty list", zk.get_acls, "/open")
    attempt("list", zk.get_acls, "/public")
    attempt("creator's list", zk.get_acls, "/mine")
    stranger = connect()
    for path in ("/private", "/public", "/mine", "/local"):
        attempt("stranger reads " + path, stranger.get, path)
        attempt("stranger writes " + path, stranger.set, path, b"")
        attempt("stranger looks below " + path, stranger.get_children, path)
        attempt("stranger creates below " + path, stranger.create, path + "/x")
        attempt("stranger reads the list of " + path, stranger.get_acls, path)
    attempt("stranger changes a list", stranger.set_acls, "/public", [reader])
    attempt("bad credentials", stranger.add_auth, "digest", "bob:guess")
    attempt("another's", stranger.get, "/private")
    attempt("right credentials", stranger.add_auth, "digest", "alice:secret")
    attempt("known by now", stranger.get, "/private")
    attempt("change, wrong version", stranger.set_acls, "/public", [alice], version=7)
    attempt("change", stranger.set_acls, "/public", [alice], version=0)
    attempt("stat", lambda: stranger.exists("/public"))
    say(make_digest_acl_credential("alice", "secret"))
    stranger.stop()
    other = connect(auth_data=[("digest", "alice:secret")], default_acl=[alice])
    attempt("at the start", other.get, "/private")
    attempt("default list", other.create, "/default")
    attempt("default list", other.get_acls, "/default")
    other.stop()
    other.close()
    refused = connect()
    attempt("unknown scheme", refused.add_auth, "nonsense", "x")
    refused.stop()
    for path in ("/private", "/public", "/mine", "/local", "/default", "/open"):
        zk.delete(path, recursive=True)


def chroots(zk):
    chapter("chroot")
    zk.ensure_path("/apps/one")
    inner = connect(chroot="/apps/one")
    attempt("create", inner.create, "/x/y", b"in", makepath=True)
    attempt("sequence", inner.create, "/x/s-", b"", sequence=True)
    attempt("children", lambda: sorted(inner.get_children("/x")))
    attempt("outside", zk.get, "/apps/one/x/y")
    attempt("root", lambda: inner.get_children("/"))
    events = []
    inner.exists("/x/z", watch=events.append)
    zk.create("/apps/one/x/z")
    settled(inner)
    say([(event.type, event.path) for event in events])
    results = inner.transaction()
    results.create("/x/t")
    results.delete("/x/y")
    attempt("transaction", results.commit)
    inner.stop()
    missing = connect(chroot="/missing")
    attempt("missing root", missing.exists, "/")
    attempt("create in a missing root", missing.create, "/x")
    attempt("make the root", missing.create, "/x", makepath=True)
    missing.stop()
    tree(zk, "/apps")
    zk.delete("/apps", recursive=True)
    zk.delete("/missing", recursive=True)


def watches(zk, other):
    chapter("watches")
    seen = []

    def watcher(label):
        return lambda event: seen.append((label, event.type, event.state, event.path))

    def happened():
        settled(zk, other)
        # The watchers of one event are called in no order.
        for _, same in itertools.groupby(seen, key=lambda entry: entry[1:]):
            for entry in sorted(same, key=str):
                say("  ", *entry)
        seen.clear()

    zk.exists("/w", watch=watcher("exists"))
    other.create("/w", b"1")
    happened()
    zk.get("/w", watch=watcher("data"))
    zk.exists("/w", watch=watcher("exists"))
    zk.get_children("/w", watch=watcher("children"))
    other.set("/w", b"2")
    happened()
    other.set("/w", b"3")
    happened()
    other.create("/w/a")
    happened()
    zk.get("/w", watch=watcher("data"))
    zk.get_children("/w", watch=watcher("children"))
    zk.get("/w/a", watch=watcher("data of the child"))
    other.delete("/w", recursive=True)
    happened()
    attempt("a failed read leaves no watch", zk.get, "/w", watch=watcher("data"))
    zk.create("/w")
    happened()
    zk.get("/w", watch=watcher("own"))
    zk.set("/w", b"own")
    happened()

    say("data watch")
    zk.DataWatch("/w/d", lambda data, stat, event: seen.append(
        (data, stat and stat.version, event and event.type)))
    happened()
    for change in (lambda: other.create("/w/d", b"1"), lambda: other.set("/w/d", b"2"),
                   lambda: other.delete("/w/d"), lambda: other.create("/w/d", b"3")):
        change()
        happened()
    say("children watch")
    other.ensure_path("/w/c")
    zk.ChildrenWatch("/w/c", lambda children, event: seen.append(
        (sorted(children), event and event.type)), send_event=True)
    happened()
    for change in (lambda: other.create("/w/c/1"), lambda: other.create("/w/c/2"),
                   lambda: other.set("/w/c/2", b""), lambda: other.delete("/w/c/1")):
        change()
        happened()
    say("a watch that ends itself")
    zk.DataWatch("/w/once", lambda data, stat: seen.append((data,)) or data != b"1")
    happened()
    other.create("/w/once")
    happened()
    for data in (b"1", b"2"):
        other.set("/w/once", data)
        happened()

    say("tree cache")
    cache = TreeCache(zk, "/w/tree")
    cache.listen(lambda event: seen.append(
        (event.event_type, event.event_data and event.event_data.path, event.event_data and event.event_data.data)))
    other.create("/w/tree", b"0")
    cache.start()
    until(lambda: any(entry[0] == TreeEvent.INITIALIZED for entry in seen))
    for change, count in ((lambda: other.create("/w/tree/a", b"1"), 1),
                          (lambda: other.create("/w/tree/a/b", b"2"), 1),
                          (lambda: other.set("/w/tree/a", b"3"), 1),
                          (lambda: other.delete("/w/tree/a/b"), 1)):
        before = len(seen)
        change()
        until(lambda: len(seen) >= before + count)
    settled(zk)
    for entry in seen:
        say("  ", *entry)
    say(cache.get_data("/w/tree/a").data, sorted(cache.get_children("/w/tree")))
    cache.close()
    other.delete("/w", recursive=True)
    settled(zk)
    seen.clear()


def transactions(zk):
    chapter("transactions")

    def commit(label, *steps):
        request = zk.transaction()
        for name, *args in steps:
            options = args.pop() if args and isinstance(args[-1], dict) else {}
            getattr(request, name)(*args, **options)
        say(label, "->", [
            type(result).__name__ if isinstance(result, Exception) else show(result) for result in request.commit()])

    commit("nothing")
    commit("all kinds", ("create", "/t", b"1"), ("create", "/t/a"), ("create", "/t/e", b"", {"ephemeral": True}),
           ("create", "/t/s-", b"", {"sequence": True}), ("create", "/t/s-", b"", {"sequence": True}),
           ("check", "/t", 0), ("set_data", "/t", b"2", 0), ("check", "/t", 1), ("delete", "/t/a", 0))
    tree(zk, "/t")
    commit("the first fails", ("check", "/t", 7), ("create", "/t/b"))
    commit("the middle fails", ("create", "/t/b"), ("delete", "/t/none"), ("create", "/t/c"))
    commit("the last fails", ("create", "/t/b"), ("create", "/t/c"), ("create", "/t/b"))
    commit("not empty", ("delete", "/t"))
    commit("child of an ephemeral", ("create", "/t/e/x"))
    commit("in steps", ("create", "/t/b"), ("create", "/t/b/c"), ("delete", "/t/b/c"), ("delete", "/t/b"))
    tree(zk, "/t")
    zk.delete("/t", recursive=True)


def sessions(zk):
    chapter("sessions")
    states = []
    relay = Relay()
    client = connect(hosts=relay.hosts, timeout=4)
    client.add_listener(lambda state: states.append(state))
    client.create("/mine", b"", ephemeral=True)
    before = client.client_id
    seen = []
    client.DataWatch("/news", lambda data, stat: seen.append(data))
    zk.create("/news", b"1")
    until(lambda: b"1" in seen)

    say("cut, and back")
    relay.cut()
    until(lambda: states == ["SUSPENDED", "CONNECTED"])
    say(states, client.client_id == before, zk.exists("/mine") is not None)
    zk.set("/news", b"2")
    until(lambda: b"2" in seen)

    say("a change while away")
    relay.cut(broken=True)
    until(lambda: len(states) == 3)
    zk.set("/news", b"3")
    relay.broken = False
    until(lambda: b"3" in seen)
    say(states[2:], seen, client.client_id == before)

    say("taken over and closed")
    del states[:]
    thief = KazooClient(hosts="%s:%s" % (HOST, PORT), client_id=before, timeout=4)
    relay.broken = True
    thief.start(timeout=PATIENCE)
    say(thief.client_id == before, thief.exists("/mine").ephemeralOwner == before[0])
    thief.stop()
    until(lambda: zk.exists("/mine") is None)
    relay.broken = False
    until(lambda: states == ["SUSPENDED", "LOST", "CONNECTED"])
    say(states, client.client_id == before)

    say("expired")
    client.create("/mine", b"", ephemeral=True)
    del states[:]
    relay.cut(broken=True)
    gone = threading.Event()
    zk.exists("/mine", watch=lambda event: event.type == EventType.DELETED and gone.set())
    say(gone.wait(PATIENCE))
    relay.broken = False
    until(lambda: states == ["SUSPENDED", "LOST", "CONNECTED"])
    say(states, client.exists("/mine"))

    say("restarted")
    del states[:]
    client.create("/mine", b"", ephemeral=True)
    client.restart()
    say(states, client.exists("/mine"))
    client.stop()
    say(states[-1], client.connected)
    attempt("after the end", client.get, "/")
    client.close()

    say("a wrong password")
    victim = connect()
    before = victim.client_id
    lost = []
    victim.add_listener(lost.append)
    wrong = KazooClient(hosts="%s:%s" % (HOST, PORT), client_id=(before[0], b"\1" * 16), timeout=4)
    wrong.start(timeout=PATIENCE)
    # The server has closed the connection of the session before it looked at the password.
    until(lambda: lost == ["SUSPENDED", "CONNECTED"])
    say(wrong.client_id[0] != before[0], victim.client_id == before)
    wrong.stop()
    victim.stop()
    zk.delete("/news")


def main():
    logging.disable(logging.CRITICAL)
    zk, other = connect(), connect()
    operations(zk)
    access(zk)
    chroots(zk)
    watches(zk, other)
    transactions(zk)
    kazoo_recipes.locks(zk, other)
    kazoo_recipes.queues(zk, other)
    kazoo_recipes.others(zk, other)
    sessions(zk)
    chapter("at the end")
    say(sorted(zk.get_children("/")))
    zk.stop()
    other.stop()
    say("DONE")


if __name__ == "__main__":
    main()
