"""The data of a node, which one session watches and another one changes."""

import queue
from time import perf_counter

from sessions import Round, Sessions


class Data:
    def __init__(self, options):
        self.options = options
        self.sessions = Sessions(options, 2)

    def prepare(self, path, operations):
        return Changes(self.sessions, path, operations, self.options.payload)


class Changes(Round):
    def __init__(self, sessions, path, operations, width):
        super().__init__(operations)
        self.writing, self.path, self.width = sessions[1], path, width
        self.changes = 0
        self.told = queue.Queue()
        self.writing.create(path, makepath=True)
        sessions[0].DataWatch(path, self.listen)
        self.told.get(timeout=60)

    def listen(self, data, stat, event):
        self.told.put(data)

    def run(self, samples):
        for turn in range(self.operations):
            data = b"%0*d" % (self.width, turn)
            began = perf_counter()
            written = self.writing.set_async(self.path, data)
            told = self.told.get(timeout=60)
            if told != data:
                raise RuntimeError("%s instead of %s" % (told, data))
            written.get()
            samples.add(perf_counter() - began)
            self.changes += 1

    def check(self):
        return "changes=%d" % self.changes
