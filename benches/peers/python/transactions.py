"""Numbers in nodes, as decimal text: increased by one, and moved from one node to another under a lock."""

from time import perf_counter

from sessions import Round, Sessions


class Modify:
    def __init__(self, options):
        self.sessions = Sessions(options, 1)

    def prepare(self, path, operations):
        return Increments(self.sessions[0], path, operations)


class Increments(Round):
    def __init__(self, client, path, operations):
        super().__init__(operations)
        self.client, self.path, self.highest = client, path, 0
        client.create(path, b"0", makepath=True)

    def run(self, samples):
        for _ in range(self.operations):
            called = perf_counter()
            text, stat = self.client.get(self.path)
            number = int(text) + 1
            self.client.set(self.path, b"%d" % number, version=stat.version)
            samples.add(perf_counter() - called)
            self.highest = max(self.highest, number)

    def check(self):
        return "highest=%d" % self.highest


class Transfer(Modify):
    def prepare(self, path, operations):
        return Transfers(self.sessions[0], path, operations)


class Transfers(Round):
    def __init__(self, client, path, operations):
        super().__init__(operations)
        self.client, self.lock = client, client.Lock(path + "/lock")
        self.nodes = [client.create(path + name, b"0", makepath=True) for name in ("/from", "/to")]
        self.values = [0, 0]

    def run(self, samples):
        for _ in range(self.operations):
            called = perf_counter()
            with self.lock:
                self.move()
            samples.add(perf_counter() - called)

    def move(self):
        answers = [self.client.get_async(node) for node in self.nodes]
        values = [int(answer.get()[0]) + more for answer, more in zip(answers, (-1, 1))]
        transaction = self.client.transaction()
        for node, value in zip(self.nodes, values):
            transaction.set_data(node, b"%d" % value)
        # It returns its errors, and raises none.
        for result in transaction.commit():
            if isinstance(result, Exception):
                raise result
        self.values = values

    def check(self):
        return "moved=%d total=%d" % (self.values[1], sum(self.values))
