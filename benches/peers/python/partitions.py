"""A set of parts that members divide: one more joins, and one ends."""

import statistics
import threading
from time import perf_counter

from kazoo.recipe.partitioner import SetPartitioner

from sessions import Round, Sessions

# The members that are always there; another one comes and goes.
MEMBERS = 10
PATIENCE = 120


class Board:
    """Who owns what, as the members tell."""

    def __init__(self, parts):
        self.changed = threading.Condition()
        self.owners = {part: set() for part in parts}
        self.members = set()
        self.most = 0
        self.settled_at = None
        self.forget()

    def forget(self):
        """Begins with an operation: who owns what now is the former owner."""
        with self.changed:
            self.former = {part: set(owners) for part, owners in self.owners.items()}
            self.released = {}
            self.owned = {}

    def begins(self, member, parts):
        with self.changed:
            if member not in self.members:
                return
            now = perf_counter()
            member.parts = parts
            for part in parts:
                self.owners[part].add(member)
                self.owned[part] = now
                self.most = max(self.most, len(self.owners[part]))
            self.settled_at = now if self.is_settled() else None
            self.changed.notify_all()

    def ends(self, member):
        with self.changed:
            now = perf_counter()
            for part in member.parts:
                self.owners[part].remove(member)
                self.released.setdefault(part, now)
            member.parts = []
            self.settled_at = None

    def joins(self, member):
        with self.changed:
            self.members.add(member)
            self.settled_at = None

    def leaves(self, member):
        with self.changed:
            self.members.remove(member)
            self.ends(member)

    def is_settled(self):
        """Whether all members have as many parts as the others, so that they know the same members."""
        counts = [len(member.parts) for member in self.members]
        has_one = all(len(owners) == 1 for owners in self.owners.values())
        return has_one and max(counts) - min(counts) <= 1

    def settled(self):
        """Waits until it is, and returns since when."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.settled_at, PATIENCE):
                raise TimeoutError("the members have not settled")
            return self.settled_at

    def idle(self):
        """How long each part that has another owner than at first had none; and how many others were given back."""
        with self.changed:
            moved = [part for part, owners in self.owners.items() if owners != self.former[part]]
            idle = [self.owned[part] - self.released[part] for part in moved]
            return idle, len(self.released.keys() - set(moved))


class Member:
    """A member with a session and a thread of its own."""

    def __init__(self, client, path, number, board):
        self.client, self.board, self.parts = client, board, []
        self.changed = threading.Event()
        self.leaving = False
        board.joins(self)
        self.partitioner = SetPartitioner(
            client,
            path,
            list(board.owners),
            identifier="m%02d" % number,
            time_boundary=1,
            state_change_event=self.changed,
        )
        self.thread = threading.Thread(target=self.drive, daemon=True)
        self.thread.start()

    def drive(self):
        while not self.leaving:
            if self.partitioner.release:
                self.board.ends(self)
                self.partitioner.release_set()
            elif self.partitioner.acquired and not self.parts:
                self.board.begins(self, list(self.partitioner))
            self.changed.wait()
            self.changed.clear()

    def stop(self):
        """Ends the use of all parts, and keeps the locks."""
        self.board.leaves(self)
        self.leaving = True
        self.changed.set()

    def finish(self):
        self.thread.join()
        self.partitioner.finish()


class Partitions:
    def __init__(self, options):
        self.size = options.size
        self.sessions = Sessions(options, MEMBERS + 1)

    def prepare(self, path, operations):
        return self.changes(self.sessions, path, operations, self.size)


class Changes(Round):
    def __init__(self, sessions, path, operations, size):
        super().__init__(operations)
        self.path = path
        self.board = Board(["p%d" % part for part in range(size)])
        self.last = sessions[MEMBERS]
        self.members = [self.member(number, client) for number, client in enumerate(sessions[: self.AT_FIRST])]
        self.board.settled()
        self.done = 0
        self.idle = []
        self.disturbed = 0

    def member(self, number, client):
        return Member(client, self.path, number, self.board)

    def run(self, samples):
        for _ in range(self.operations):
            self.board.forget()
            began = perf_counter()
            self.change()
            samples.add(self.board.settled() - began)
            idle, disturbed = self.board.idle()
            self.idle += idle
            self.disturbed += disturbed
            self.done += 1
            self.undo()
            self.board.settled()

    def check(self):
        return "owners_at_once=%d changes=%d" % (self.board.most, self.done)

    def numbers(self):
        return {
            "parts that moved": len(self.idle) / self.done,
            "parts that stayed and were disturbed": self.disturbed / self.done,
            "ms without an owner, of a part that moved": statistics.median(self.idle) * 1e3,
        }

    def close(self):
        # Nobody may begin to acquire what the others give back.
        for member in self.members:
            member.stop()
        for member in self.members:
            member.finish()


class Joins(Changes):
    AT_FIRST = MEMBERS

    def change(self):
        self.members.append(self.member(MEMBERS, self.last))

    def undo(self):
        member = self.members.pop()
        member.stop()
        member.finish()


class Leaves(Changes):
    AT_FIRST = MEMBERS + 1

    def change(self):
        self.members.pop().stop()
        self.last.stop()

    def undo(self):
        self.last.start()
        self.members.append(self.member(MEMBERS, self.last))


class Join(Partitions):
    changes = Joins


class Leave(Partitions):
    changes = Leaves
