"""Queues that are filled and emptied. kazoo has two: one with priorities, and one that locks the item that is taken."""

import itertools
from time import perf_counter

from kazoo.recipe.queue import LockingQueue, Queue

from sessions import Round, Sessions, in_parallel

PRIORITIES = 10


class Queues:
    queue = Queue
    by_priority = False

    def __init__(self, options):
        self.sessions = Sessions(options, 1)
        self.size = options.size
        self.payload = options.payload

    def new_queue(self, path):
        return self.queue(self.sessions[0], path)

    def put(self, queue, index):
        item = str(index).encode().ljust(self.payload)
        if self.by_priority:
            queue.put(item, priority=index % PRIORITIES)
        else:
            queue.put(item)


class Put(Queues):
    def prepare(self, path, operations):
        return PutRound(self, path, operations)


class PutRound(Round):
    def __init__(self, workload, path, operations):
        super().__init__(operations)
        self.workload = workload
        self.queue = workload.new_queue(path)
        self.items = []

    def run(self, samples):
        indexes = itertools.count()

        def produce():
            for index in indexes:
                if index >= self.operations:
                    return
                called = perf_counter()
                self.workload.put(self.queue, index)
                samples.add(perf_counter() - called)
                self.items.append(index)

        # A put waits: several are under way when several threads put.
        if self.workload.size == 1:
            produce()
        else:
            in_parallel([produce] * self.workload.size)

    def check(self):
        return "items=%d" % len(self.items)


class Take(Queues):
    @staticmethod
    def take(queue):
        return queue.get()

    def prepare(self, path, operations):
        queue = self.new_queue(path)
        for index in range(operations):
            self.put(queue, index)
        return TakeRound(self, queue, operations)


class TakeRound(Round):
    def __init__(self, workload, queue, operations):
        super().__init__(operations)
        self.workload = workload
        self.queue = queue
        self.items = []

    def run(self, samples):
        for _ in range(self.operations):
            called = perf_counter()
            item = self.workload.take(self.queue)
            samples.add(perf_counter() - called)
            self.items.append(int(item))

    def check(self):
        if self.workload.by_priority:
            order = [(index % PRIORITIES, index) for index in self.items]
        else:
            order = self.items
        in_order = all(one < other for one, other in zip(order, order[1:]))
        distinct = len(set(self.items))
        return "items=%d distinct=%d order=%s" % (len(self.items), distinct, "ok" if in_order else "broken")


class SimplePut(Put):
    pass


class SimpleTake(Take):
    pass


class PriorityPut(Put):
    by_priority = True


class PriorityTake(Take):
    by_priority = True


class LockingPut(Put):
    queue = LockingQueue


class LockingTake(Take):
    queue = LockingQueue

    @staticmethod
    def take(queue):
        item = queue.get(timeout=60)
        if not queue.consume():
            raise RuntimeError("the item is not ours any more")
        return item
