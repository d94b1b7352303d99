"""Measures readers of transaction logs and snapshots: see scripts/measure-history."""

import argparse
import concurrent.futures
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import time
import zlib

SESSION = 0x1000000000000001
EPOCH = 1 << 32
BEGIN_MS = 1_796_047_320_000
DATA = b"x" * 100
ACL = struct.pack(">ii", 1, 31) + b"".join(struct.pack(">i", len(text)) + text for text in (b"world", b"anyone"))
TOOL = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
NODES = 1_000_000
PARENTS = 1_000
# The transactions after the snapshot, one each millisecond. The tree is rebuilt as it was in their middle.
AFTER_SNAPSHOT = 100_000
CREATE, DELETE, SET_DATA = 1, 2, 5


def text(value):
    return struct.pack(">i", len(value)) + value


def write_log(path, first, changes):
    """Writes a log of changes, each an operation and its body."""
    with open(path, "wb") as out:
        out.write(b"ZKLG" + struct.pack(">iq", 2, 0))
        for number, (op, body) in enumerate(changes, first):
            record = struct.pack(">qiqqi", SESSION, number & 0x7FFFFFFF, EPOCH + number, BEGIN_MS + number, op) + body
            out.write(struct.pack(">qi", zlib.adler32(record), len(record)) + record + b"B")


class Changes:
    """Creates, writes and deletes. The session began before the first of them, so `who` reads the logs a third time."""

    def __init__(self):
        self.chance = random.Random(1)
        self.nodes, self.versions, self.cversions = [], {}, {}
        self.number, self.deleted = 0, None

    def next(self, count):
        for _ in range(count):
            self.number += 1
            kind = self.chance.random()
            if self.number <= 100:
                yield self.create(b"/d%d" % self.number)
            elif kind < 0.3 or len(self.nodes) < 10:
                path = b"/d%d/n%d" % (self.chance.randrange(1, 101), self.number)
                self.nodes.append(path)
                self.versions[path] = 0
                yield self.create(path)
            elif kind < 0.9:
                path = self.nodes[self.chance.randrange(len(self.nodes))]
                self.versions[path] += 1
                yield SET_DATA, text(path) + text(DATA) + struct.pack(">i", self.versions[path])
            else:
                place = self.chance.randrange(len(self.nodes))
                self.nodes[place], self.nodes[-1] = self.nodes[-1], self.nodes[place]
                path = self.nodes.pop()
                self.deleted = path.decode()
                yield DELETE, text(path)

    def create(self, path):
        parent = path.rsplit(b"/", 1)[0]
        self.cversions[parent] = self.cversions.get(parent, 0) + 1
        return CREATE, text(path) + text(DATA) + ACL + b"\0" + struct.pack(">i", self.cversions[parent])


def write_logs(one, many, transactions, size):
    """Writes a log into the folder `one`, and this log and later ones of at least `size` bytes into the folder `many`. Returns
    a node that the first log deletes, and one that the last log deletes."""
    changes, written, deleted = Changes(), 0, None
    while written < size:
        first = changes.number + 1
        path = f"{many}/log.{EPOCH + first:x}"
        write_log(path, first, changes.next(transactions))
        written += os.path.getsize(path)
        if deleted is None:
            os.link(path, f"{one}/{os.path.basename(path)}")
            deleted = changes.deleted
    return deleted, changes.deleted


def write_tree(folder):
    """Writes a snapshot of a million nodes, as ZooKeeper 3.8 does, and a log of writes after it."""
    each = NODES // PARENTS

    def stat(zxid, children):
        return struct.pack(">qqqqiiiqq", zxid, zxid, BEGIN_MS, BEGIN_MS, 0, children, 0, 0, zxid)

    with open(f"{folder}/snapshot.{EPOCH:x}", "wb") as out:
        checksum = 1

        def write(data):
            nonlocal checksum
            checksum = zlib.adler32(data, checksum)
            out.write(data)

        def seal():
            write(struct.pack(">q", checksum) + text(b"/"))

        write(b"ZKSN" + struct.pack(">iqii", 2, -1, 0, 0))
        write(text(b"") + text(b"") + struct.pack(">q", -1) + stat(0, PARENTS))
        for parent in range(PARENTS):
            write(text(b"/p%d" % parent) + text(b"") + struct.pack(">q", -1) + stat(1, each))
            for child in range(each):
                write(text(b"/p%d/n%d" % (parent, child)) + text(DATA) + struct.pack(">q", -1) + stat(1, 0))
        write(text(b"/"))
        seal()
        # The end of the fuzzy range, with a digest that no measured command compares.
        write(struct.pack(">qiq", EPOCH, 2, 0))
        seal()

    def changes():
        chance, versions = random.Random(2), {}
        for _ in range(AFTER_SNAPSHOT):
            path = b"/p%d/n%d" % (chance.randrange(PARENTS), chance.randrange(each))
            versions[path] = versions.get(path, 0) + 1
            yield SET_DATA, text(path) + text(DATA) + struct.pack(">i", versions[path])

    write_log(f"{folder}/log.{EPOCH + 1:x}", 1, changes())


def run(command):
    """Runs a command. Returns its seconds, its seconds of CPU, and its greatest memory in bytes, which is at least that of this
    program: the kernel counts the memory before the `exec` as well."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (command, process.returncode)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def size_of(folder, name=""):
    return sum(os.path.getsize(f"{folder}/{file}") for file in os.listdir(folder) if file.startswith(name))


def progress(what):
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


class Row:
    """A command, its rounds, and the number of bytes that it reads."""

    def __init__(self, command, size):
        self.command, self.size = command, size
        self.seconds, self.cpu, self.memory = [], [], 0

    def measure(self):
        seconds, cpu, memory = run(self.command)
        self.seconds.append(seconds)
        self.cpu.append(cpu)
        self.memory = max(self.memory, memory)

    def median(self):
        return statistics.median(self.seconds)

    def rate(self):
        """Returns the MB that one core reads in a second."""
        return self.size / 1e6 / statistics.median(self.cpu)

    def text(self, name):
        low, high = min(self.seconds), max(self.seconds)
        seconds = f"{self.median():.2f} [{low:.2f}–{high:.2f}]"
        cpu = statistics.median(self.cpu)
        return f"| {name} | {self.size / 1e6:.0f} | {seconds} | {cpu:.2f} | {self.rate():.0f} | {self.memory / 1e6:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkc", required=True)
    parser.add_argument("--classpath", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--megabytes", type=int, default=1_000)
    options = parser.parse_args()
    one, many, tree = folders = [f"{options.work}/{name}" for name in ("one", "many", "tree")]
    for folder in folders:
        os.makedirs(folder)
    progress(f"writes {options.megabytes} MB of logs and a snapshot of {NODES:,} nodes")
    # In a process of its own: its memory would count as that of each command.
    with concurrent.futures.ProcessPoolExecutor(1) as worker:
        written = worker.submit(write_logs, one, many, options.transactions, options.megabytes * 1_000_000)
        worker.submit(write_tree, tree).result()
        deleted, deleted_last = written.result()
    log = f"{one}/{os.listdir(one)[0]}"
    middle = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((BEGIN_MS + AFTER_SNAPSHOT // 2) // 1000))
    zkc, snapshot = [options.zkc, "history"], size_of(tree, "snapshot")
    rows = {
        "TxnLogToolkit": Row(["java", "-Xmx512m", "-cp", options.classpath, TOOL, log], size_of(one)),
        "`zkc history log`": Row([*zkc, "log", one], size_of(one)),
        "`zkc history log -o jsonl`": Row([*zkc, "log", one, "-o", "jsonl"], size_of(one)),
        "`zkc history check --no-digests`": Row([*zkc, "check", one, "--no-digests"], size_of(one)),
        "`zkc history who`": Row([*zkc, "who", one, deleted], size_of(one)),
        "`zkc history who`, all logs": Row([*zkc, "who", many, deleted_last], size_of(many)),
        "`zkc history tree --at`, one subtree": Row([*zkc, "tree", tree, "/p1", "--at", middle], size_of(tree)),
        "`zkc history tree --at`, two levels": Row([*zkc, "tree", tree, "--at", middle, "--depth", "1"], size_of(tree)),
        "`zkc history tree --at`, all nodes": Row([*zkc, "tree", tree, "--at", middle], size_of(tree)),
    }
    for number in range(options.rounds):
        for name, row in rows.items():
            row.measure()
            progress(f"round {number + 1}, {name}: {row.seconds[-1]:.2f} s")
    print(f"One log of {options.transactions:,} transactions; a snapshot of {NODES:,} nodes, {snapshot / 1e6:.0f} MB, and a log of")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{AFTER_SNAPSHOT:,} writes after it. This program has {own / 1e6:.0f} MB.")
    print()
    print("| command | MB read | median s [min–max] | CPU s | MB/s of a core | memory MB |\n|---|---:|---:|---:|---:|---:|")
    for name, row in rows.items():
        print(row.text(name))
    print_targets(rows, snapshot)


def print_targets(rows, snapshot):
    ratio = rows["TxnLogToolkit"].median() / rows["`zkc history log`"].median()
    rate = rows["`zkc history check --no-digests`"].rate()
    who, tree = rows["`zkc history who`, all logs"], rows["`zkc history tree --at`, all nodes"]
    share = tree.memory / snapshot
    print("\n| what | target | measured | met |\n|---|---|---|---|")
    for what, target, measured, is_met in (
        ("the log as text, compared with TxnLogToolkit", "≥ 10 times as fast", f"{ratio:.1f} times", ratio >= 10),
        ("decoded on one core", "≥ 300 MB/s", f"{rate:.0f} MB/s", rate >= 300),
        (f"`who` over {who.size / 1e9:.1f} GB of logs", "≤ 10 s", f"{who.median():.1f} s", who.median() <= 10),
        ("the tree of a million nodes at a time", "≤ 15 s", f"{tree.median():.1f} s", tree.median() <= 15),
        ("its memory", "≤ 1.5 × the snapshot", f"{share:.2f} ×", share <= 1.5),
    ):
        print(f"| {what} | {target} | {measured} | {'yes' if is_met else 'no'} |")


if __name__ == "__main__":
    main()
