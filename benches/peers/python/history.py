"""Measures readers of transaction logs and snapshots: see scripts/measure-history."""

import argparse
import os
import random
import statistics
import struct
import subprocess
import time
import zlib

SESSION = 0x1000000000000001
BEGIN_MS = 1_796_047_320_000
DATA = b"x" * 100
ACL = struct.pack(">ii", 1, 31) + b"".join(struct.pack(">i", len(text)) + text for text in (b"world", b"anyone"))
TOOL = "org.apache.zookeeper.server.persistence.TxnLogToolkit"


def text(value):
    return struct.pack(">i", len(value)) + value


def write_log(path, count):
    """Writes a log of creates, writes and deletes. Returns a node that is deleted."""
    chance = random.Random(1)
    nodes, versions, cversions, deleted = [], {}, {}, None
    with open(path, "wb") as out:
        out.write(b"ZKLG" + struct.pack(">iq", 2, 0))
        for number in range(1, count + 1):
            kind = chance.random()
            if number <= 100:
                path_of_node = b"/d%d" % number
                op, body = 1, create(path_of_node, cversions)
            elif kind < 0.3 or len(nodes) < 10:
                path_of_node = b"/d%d/n%d" % (chance.randrange(1, 101), number)
                op, body = 1, create(path_of_node, cversions)
                nodes.append(path_of_node)
                versions[path_of_node] = 0
            elif kind < 0.9:
                path_of_node = nodes[chance.randrange(len(nodes))]
                versions[path_of_node] += 1
                op, body = 5, text(path_of_node) + text(DATA) + struct.pack(">i", versions[path_of_node])
            else:
                place = chance.randrange(len(nodes))
                nodes[place], nodes[-1] = nodes[-1], nodes[place]
                deleted = nodes.pop()
                op, body = 2, text(deleted)
            zxid = (1 << 32) + number
            record = struct.pack(">qiqqi", SESSION, number, zxid, BEGIN_MS + number, op) + body
            out.write(struct.pack(">qi", zlib.adler32(record), len(record)) + record + b"B")
    return deleted.decode()


def create(path, cversions):
    parent = path.rsplit(b"/", 1)[0]
    cversions[parent] = cversions.get(parent, 0) + 1
    return text(path) + text(DATA) + ACL + b"\0" + struct.pack(">i", cversions[parent])


def write_snapshot(path, count):
    """Writes a snapshot of nodes below a thousand parents."""

    def stat(zxid, children):
        return struct.pack(">qqqqiiiqq", zxid, zxid, BEGIN_MS, BEGIN_MS, 0, children, 0, 0, zxid)

    with open(path, "wb") as out:
        checksum = 1

        def write(data):
            nonlocal checksum
            checksum = zlib.adler32(data, checksum)
            out.write(data)

        def seal():
            out.write(struct.pack(">q", checksum) + text(b"/"))

        write(b"ZKSN" + struct.pack(">iqii", 2, -1, 0, 0))
        write(text(b"") + text(b"") + struct.pack(">q", -1) + stat(0, 1000))
        each = count // 1000
        for parent in range(1000):
            write(text(b"/p%d" % parent) + text(b"") + struct.pack(">q", -1) + stat(1, each))
            for child in range(each):
                write(text(b"/p%d/n%d" % (parent, child)) + text(DATA) + struct.pack(">q", -1) + stat(1, 0))
        write(text(b"/"))
        seal()


def run(command):
    """Runs a command. Returns its seconds, and the greatest memory in bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (command, process.returncode)
    return seconds, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkc", required=True)
    parser.add_argument("--classpath", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=1_000_000)
    options = parser.parse_args()
    history, trees = f"{options.work}/history", f"{options.work}/trees"
    for folder in (history, trees):
        os.makedirs(folder)
    log, snapshot = f"{history}/log.100000001", f"{trees}/snapshot.100000001"
    deleted = write_log(log, options.transactions)
    write_snapshot(snapshot, 1_000_000)
    zkc = [options.zkc, "history"]
    commands = {
        "TxnLogToolkit": ["java", "-Xmx512m", "-cp", options.classpath, TOOL, log],
        "zkc history log": [*zkc, "log", history],
        "zkc history check --no-digests": [*zkc, "check", history, "--no-digests"],
        "zkc history who": [*zkc, "who", history, deleted],
        "zkc history tree, 1 million nodes": [*zkc, "tree", trees, "/p1"],
        "zkc history tree, all of them": [*zkc, "tree", trees],
    }
    seconds = {name: [] for name in commands}
    memory = {name: 0 for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            took, bytes_used = run(command)
            seconds[name].append(took)
            memory[name] = max(memory[name], bytes_used)
    sizes = os.path.getsize(log), os.path.getsize(snapshot)
    print(f"log: {options.transactions} transactions, {sizes[0] / 1e6:.0f} MB; snapshot: {sizes[1] / 1e6:.0f} MB")
    print("| command | median s | MB/s | memory MB |\n|---|---:|---:|---:|")
    for name, took in seconds.items():
        median = statistics.median(took)
        size = sizes[1] if "tree" in name else sizes[0]
        print(f"| {name} | {median:.2f} | {size / 1e6 / median:.0f} | {memory[name] / 1e6:.0f} |")
    ratio = statistics.median(seconds["TxnLogToolkit"]) / statistics.median(seconds["zkc history log"])
    print(f"TxnLogToolkit takes {ratio:.1f} times as long as zkc history log")


if __name__ == "__main__":
    main()
