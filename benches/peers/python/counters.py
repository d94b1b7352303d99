"""Increments: of one session for each thread, or of all threads with one session."""

import threading
from time import perf_counter

from sessions import Round, Sessions, in_parallel


class Increments(Round):
    def __init__(self, sessions, threads, path, operations):
        self.sessions = sessions
        self.threads = threads
        self.path = path
        self.each = operations // threads
        super().__init__(self.each * threads)
        self.lock = threading.Lock()
        self.seen = set()

    def run(self, samples):
        self.samples = samples
        clients = [self.sessions[number % len(self.sessions)] for number in range(self.threads)]
        in_parallel([lambda client=client: self.increment(client) for client in clients])

    def increment(self, client):
        counter = client.Counter(self.path)
        for _ in range(self.each):
            called = perf_counter()
            counter += 1
            took = perf_counter() - called
            with self.lock:
                self.samples.add(took)
                self.seen.add(counter.post_value)

    def check(self):
        return "highest=%d distinct=%d" % (max(self.seen), len(self.seen))


class OfSessions:
    def __init__(self, options):
        self.threads = options.size
        self.sessions = Sessions(options, options.size)

    def prepare(self, path, operations):
        return Increments(self.sessions, self.threads, path, operations)


class OfTasks(OfSessions):
    def __init__(self, options):
        self.threads = options.size
        self.sessions = Sessions(options, 1)
