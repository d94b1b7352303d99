"""Members who enter and leave together, again and again.

kazoo needs help for that. A member that looks for "ready" when it is there already counts the members, and waits for ever
if one has left by then: so nobody leaves before all have entered.
"""

import threading
from time import perf_counter

from kazoo.recipe.barrier import DoubleBarrier

from sessions import Round, Sessions


class Double:
    def __init__(self, options):
        self.sessions = Sessions(options, options.size)

    def prepare(self, path, operations):
        return Rounds(self.sessions, path, operations)


class Rounds(Round):
    def __init__(self, sessions, path, operations):
        super().__init__(operations)
        self.sessions = sessions
        self.path = path
        self.lock = threading.Lock()
        self.called = 0
        self.left = 0
        self.early = 0

    def begin(self):
        self.began = perf_counter()

    def run(self, samples):
        everybody = len(self.sessions)
        beginning = threading.Barrier(everybody, self.begin)
        entered = threading.Barrier(everybody)

        def member(number, client):
            barrier = DoubleBarrier(client, self.path, everybody)
            for turn in range(1, self.operations + 1):
                beginning.wait()
                with self.lock:
                    self.called += 1
                barrier.enter()
                with self.lock:
                    self.early += self.called < turn * everybody
                entered.wait()
                barrier.leave()
                with self.lock:
                    self.left += 1
                    if self.left == turn * everybody:
                        samples.add(perf_counter() - self.began)

        self.sessions.run(member)

    def check(self):
        return "rounds=%d early=%d" % (self.left // len(self.sessions), self.early)
