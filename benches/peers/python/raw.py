"""Requests of one session: one at a time as calls that wait, several with kazoo's `_async` calls, the next of which is
sent by the callback of the one before."""

import itertools
import threading
from time import perf_counter

from sessions import Round, Sessions


class Raw:
    def __init__(self, options):
        self.sessions = Sessions(options, 1)
        self.in_flight = options.size
        self.payload = bytes(options.payload)

    def prepare(self, path, operations):
        client = self.sessions[0]
        client.create(path, self.payload, makepath=True)
        return self.requests(client, path, operations, self.in_flight, self.payload)


class Requests(Round):
    def __init__(self, client, path, operations, in_flight, payload):
        super().__init__(operations)
        self.client = client
        self.path = path
        self.in_flight = in_flight
        self.payload = payload

    def run(self, samples):
        if self.in_flight == 1:
            for index in range(self.operations):
                sent = perf_counter()
                self.call(index)
                samples.add(perf_counter() - sent)
            return
        self.samples = samples
        self.begun = itertools.count()
        self.done = 0
        self.failure = None
        self.finished = threading.Event()
        for _ in range(min(self.in_flight, self.operations)):
            self.next()
        self.finished.wait()
        if self.failure:
            raise self.failure

    def next(self):
        index = next(self.begun)
        if index < self.operations:
            self.send(index, perf_counter())

    def complete(self, sent):
        """An operation is complete; only the thread of kazoo that calls back comes here."""
        self.samples.add(perf_counter() - sent)
        self.done += 1
        if self.done == self.operations:
            self.finished.set()
        self.next()

    def fail(self, failure):
        self.failure = failure
        self.finished.set()


class GetRequests(Requests):
    total = 0

    def call(self, index):
        self.total += len(self.client.get(self.path)[0])

    def send(self, index, sent):
        def answered(answer):
            if answer.exception:
                return self.fail(answer.exception)
            self.total += len(answer.value[0])
            self.complete(sent)

        self.client.get_async(self.path).rawlink(answered)

    def check(self):
        return "bytes=%d" % self.total


class SetRequests(Requests):
    # That of the node before is 0: it has just been created.
    version = 0

    def call(self, index):
        self.version = max(self.version, self.client.set(self.path, self.payload).version)

    def send(self, index, sent):
        def answered(answer):
            if answer.exception:
                return self.fail(answer.exception)
            self.version = max(self.version, answer.value.version)
            self.complete(sent)

        self.client.set_async(self.path, self.payload).rawlink(answered)

    def check(self):
        return "version=%d" % self.version


class CreateDeleteRequests(Requests):
    created = 0
    deleted = 0

    def call(self, index):
        node = self.client.create("%s/%d" % (self.path, index), self.payload)
        self.created += 1
        self.client.delete(node)
        self.deleted += 1

    def send(self, index, sent):
        def deleted(answer):
            if answer.exception:
                return self.fail(answer.exception)
            self.deleted += 1
            self.complete(sent)

        def created(answer):
            if answer.exception:
                return self.fail(answer.exception)
            self.created += 1
            self.client.delete_async(answer.value).rawlink(deleted)

        self.client.create_async("%s/%d" % (self.path, index), self.payload).rawlink(created)

    def check(self):
        return "created=%d deleted=%d" % (self.created, self.deleted)


class Get(Raw):
    requests = GetRequests


class Set(Raw):
    requests = SetRequests


class CreateDelete(Raw):
    requests = CreateDeleteRequests
