"""Clients that are connected, each with a session of its own; and threads that use one each."""

import logging
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

logging.disable()


class Sessions(list):
    def __init__(self, options, count):
        super().__init__(
            KazooClient(hosts=options.connect, timeout=options.session_timeout / 1000) for _ in range(count)
        )
        for started in [client.start_async() for client in self]:
            if not started.wait(60):
                raise TimeoutError("not connected to " + options.connect)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self:
            client.stop()
            client.close()

    def clear(self, path):
        """Removes a node with everything below it, and does not wait for one leaf after the other."""
        client = self[0]
        try:
            leaves = [client.delete_async(path + "/" + child) for child in client.get_children(path)]
            for leaf in leaves:
                leaf.wait()
            for child in client.get_children(path):
                self.clear(path + "/" + child)
            client.delete(path)
        except NoNodeError:
            # Whoever had it, removed it.
            pass

    def run(self, body):
        """Runs `body(number, client)` for all at the same time, and returns when all have returned."""
        in_parallel([lambda number=number, client=client: body(number, client) for number, client in enumerate(self)])


def in_parallel(tasks):
    failures = []

    def attempt(task):
        try:
            task()
        except BaseException as failure:  # In a thread it would be printed and forgotten.
            failures.append(failure)

    threads = [threading.Thread(target=attempt, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Inside:
    """Counts who is inside, and how many have been at most."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = 0
        self.most = 0
        self.entered = 0

    def enter(self):
        with self.lock:
            self.now += 1
            self.entered += 1
            self.most = max(self.most, self.now)

    def leave(self):
        with self.lock:
            self.now -= 1


class Round:
    """Operations that are done once, all of them: the warm-up, or what is measured."""

    def __init__(self, operations):
        self.operations = operations

    def numbers(self):
        """Whatever else it has counted, by its name."""
        return {}

    def close(self):
        pass
