"""A lease that ends by the clock, and is taken again by its holder."""

from datetime import timedelta
from time import perf_counter

from kazoo.recipe.lease import NonBlockingLease

from sessions import Round, Sessions

DURATION = timedelta(seconds=30)


class Take:
    def __init__(self, options):
        self.sessions = Sessions(options, 1)

    def prepare(self, path, operations):
        return Takes(self.sessions[0], path, operations)


class Takes(Round):
    def __init__(self, client, path, operations):
        super().__init__(operations)
        self.client, self.path, self.taken = client, path, 0
        self.take()

    def run(self, samples):
        for _ in range(self.operations):
            called = perf_counter()
            lease = self.take()
            samples.add(perf_counter() - called)
            self.taken += bool(lease)

    def take(self):
        return NonBlockingLease(self.client, self.path, DURATION, identifier="bench")

    def check(self):
        return "taken=%d" % self.taken
