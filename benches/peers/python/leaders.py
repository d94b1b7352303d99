"""Participants of which one leads, leaves by itself, and comes again."""

import threading
import time
from time import perf_counter

from sessions import Inside, Round, Sessions


class Leader:
    def __init__(self, options):
        self.sessions = Sessions(options, options.size)

    def prepare(self, path, operations):
        return Terms(self.sessions, path, operations)


class Terms(Round):
    def __init__(self, sessions, path, operations):
        super().__init__(operations)
        self.elections = [client.Election(path) for client in sessions]
        self.leading = Inside()
        self.over = 0
        self.former = None
        self.left = None
        self.first, self.begin = threading.Event(), threading.Event()
        self.finished, self.closing = threading.Event(), threading.Event()
        self.threads = []
        for election in self.elections:
            thread = threading.Thread(target=self.take_part, args=(election,), daemon=True)
            self.threads.append(thread)
            thread.start()
            self.until_in_line(election)
        self.first.wait()

    def take_part(self, election):
        while not self.closing.is_set():
            election.run(self.lead, election)

    @staticmethod
    def until_in_line(election):
        # An election says that it is won, and nothing else: it has to be asked.
        while election.lock.node is None:
            time.sleep(0.0002)

    def lead(self, election):
        now = perf_counter()
        if self.closing.is_set():
            return
        self.leading.enter()
        if self.former is None:
            self.first.set()
            self.begin.wait()
        else:
            self.samples.add(now - self.left)
            self.over += 1
            self.until_in_line(self.former)
        if self.over == self.operations:
            self.finished.set()
            self.closing.wait()
        self.leading.leave()
        self.former = election
        self.left = perf_counter()

    def run(self, samples):
        self.samples = samples
        self.begin.set()
        self.finished.wait()

    def check(self):
        # The first has led since before.
        return "max_leaders=%d terms=%d" % (self.leading.most, self.leading.entered - 1)

    def close(self):
        self.closing.set()
        for thread in self.threads:
            thread.join()
