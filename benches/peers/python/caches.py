"""Caches: the load of a tree, the way of a change to its listener, and what a new connection costs; and the same tree
without a cache."""

import queue
import threading
from time import perf_counter

from kazoo.recipe.cache import TreeCache, TreeEvent
from sessions import Round, Sessions
from talk import expect, say

# The nodes of the cache that is changed.
NODES = 100


def plant(client, path, count, payload):
    """Creates a node with so many children."""
    client.ensure_path(path)
    for created in [client.create_async(node(path, number), payload) for number in range(count)]:
        created.get(120)


def node(path, number):
    return "%s/%08d" % (path, number)


def start(client, path, listener=None):
    """Starts a cache, and waits until it is loaded."""
    cache = TreeCache(client, path)
    loaded = threading.Event()

    def listen(event):
        if event.event_type == TreeEvent.INITIALIZED:
            loaded.set()
        elif listener is not None:
            listener(event)

    cache.listen(listen)
    cache.start()
    if not loaded.wait(240):
        raise TimeoutError("the cache is not loaded")
    return cache


class Load:
    def __init__(self, options):
        self.options = options
        self.sessions = Sessions(options, 1)

    def prepare(self, path, operations):
        return Loads(self.sessions[0], path, operations, self.options)


class Loads(Round):
    def __init__(self, client, path, operations, options):
        super().__init__(operations)
        self.client, self.path, self.nodes = client, path, 0
        self.payload = options.payload
        plant(client, path, options.size, b"\7" * options.payload)

    def run(self, samples):
        for _ in range(self.operations):
            began = perf_counter()
            cache = start(self.client, self.path)
            samples.add(perf_counter() - began)
            self.nodes += len(cache.get_children(self.path))
            cache.close()

    def check(self):
        return "nodes=%d" % self.nodes


class Children(Load):
    def prepare(self, path, operations):
        return ChildrenReads(self.sessions[0], path, operations, self.options)


class ChildrenReads(Loads):
    """All children with their data, without a cache."""

    def run(self, samples):
        for _ in range(self.operations):
            called = perf_counter()
            names = self.client.get_children(self.path)
            answers = [self.client.get_async(self.path + "/" + name) for name in names]
            lengths = [len(answer.get()[0]) for answer in answers]
            samples.add(perf_counter() - called)
            self.nodes += lengths.count(self.payload)


class Change:
    def __init__(self, options):
        self.options = options
        self.sessions = Sessions(options, 2)

    def prepare(self, path, operations):
        return Changes(self.sessions, path, operations, self.options)


class Changes(Round):
    def __init__(self, sessions, path, operations, options):
        super().__init__(operations)
        self.writing, self.path, self.changes = sessions[1], path, 0
        self.payload = b"\7" * options.payload
        plant(self.writing, path, NODES, self.payload)
        self.changed = queue.Queue()
        self.cache = start(sessions[0], path, self.listen)

    def listen(self, event):
        if event.event_type == TreeEvent.NODE_UPDATED:
            self.changed.put(event.event_data.path)

    def run(self, samples):
        for turn in range(self.operations):
            changed = node(self.path, turn * NODES // self.operations)
            began = perf_counter()
            written = self.writing.set_async(changed, self.payload)
            told = self.changed.get(timeout=60)
            if told != changed:
                raise RuntimeError("%s instead of %s" % (told, changed))
            written.get()
            samples.add(perf_counter() - began)
            self.changes += 1

    def check(self):
        return "changes=%d" % self.changes

    def close(self):
        self.cache.close()


class Reconnect:
    """A cache, whose connection the harness cuts."""

    # The nodes that it writes to meanwhile.
    CHANGES = 0

    def __init__(self, options):
        self.options = options
        self.sessions = Sessions(options, 1)

    def prepare(self, path, operations):
        return Reconnects(self.sessions[0], path, operations, self.options, self.CHANGES)


class ReconnectChanged(Reconnect):
    CHANGES = 10


class Reconnects(Round):
    def __init__(self, client, path, operations, options, changes):
        super().__init__(operations)
        self.path, self.changes = path, changes
        self.payload = b"\7" * options.payload
        plant(client, path, options.size, self.payload)
        self.changed = queue.Queue()
        self.cache = start(client, path, self.listen)

    def listen(self, event):
        if event.event_type == TreeEvent.NODE_UPDATED:
            self.changed.put(event.event_data.path)

    def run(self, samples):
        for _ in range(self.operations):
            for _ in range(self.changes):
                self.changed.get(timeout=240)
            if self.changes:
                say("seen")
        expect("tell")

    def check(self):
        names = self.cache.get_children(self.path)
        all_data = [self.cache.get_data(self.path + "/" + name).data for name in names]
        return "nodes=%d changed=%d" % (len(names), sum(data != self.payload for data in all_data))

    def close(self):
        self.cache.close()
