"""Measures how long servers for tests take from nothing to the first session: zk-test-server, Curator's TestingServer, and the
servers of kazoo.testing. scripts/measure-starts prepares what it needs, and runs it."""

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

from kazoo.testing.common import ZookeeperCluster


# A request for a new session of 10 s, with its length in front.
HANDSHAKE = struct.pack(">iiqiqi16s?", 45, 0, 0, 10_000, 0, 16, bytes(16), False)


def answered(address):
    """Waits until a server grants a session."""
    host, port = address.rsplit(":", 1)
    while True:
        try:
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(HANDSHAKE)
                answer = b""
                while len(answer) < 12 and (part := connection.recv(64)):
                    answer += part
                # A server that is not ready grants no timeout.
                if len(answer) >= 12 and struct.unpack(">i", answer[8:12])[0] > 0:
                    return
        except OSError:
            pass
        time.sleep(0.001)


class Program:
    """zk-test-server."""

    def __init__(self, program, members):
        self.command = [program, "--port", "0", "--until-eof", "--ensemble", str(members)]
        self.members = members

    def start(self):
        began = time.perf_counter()
        process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(self.members):
            answered(process.stdout.readline().split()[-1])
        took = time.perf_counter() - began
        process.communicate()
        return took


class Java:
    """Starts.java, which runs Curator's servers."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(self, members):
        self.process.stdin.write(f"{members}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / 1e9

    def close(self):
        self.process.communicate()


def with_its_jvm(command, members):
    began = time.perf_counter()
    java = Java(command)
    java.ask(members)
    took = time.perf_counter() - began
    java.close()
    return took


def kazoo(classpath, members, ports):
    """Starts the servers of kazoo.testing, whose harness then waits until a client can write."""
    cluster = ZookeeperCluster(classpath=classpath, size=members, port_offset=ports)
    began = time.perf_counter()
    try:
        cluster.start()
        for server in cluster:
            answered(server.address)
        return time.perf_counter() - began
    finally:
        cluster.terminate()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--classes", required=True)
    parser.add_argument("--classpath", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    command = ["java", "-cp", f"{options.classes}:{options.classpath}", "Starts"]
    running = Java(command)
    running.ask(1), running.ask(3)
    kinds = []
    for members, name in ((1, "1 server"), (3, "3 servers")):
        kinds += [
            (f"zk-test-server, {name}", Program(options.program, members).start),
            (f"Curator, {name}, in a JVM that runs", lambda members=members: running.ask(members)),
            (f"Curator, {name}, with the start of the JVM", lambda members=members: with_its_jvm(command, members)),
            (f"kazoo.testing, {name}", lambda members=members: kazoo(options.classpath, members, 20000 + 100 * members)),
        ]
    times = {name: [] for name, _ in kinds}
    # The JVMs of kazoo.testing print on standard output.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for _ in range(options.rounds):
        for name, start in kinds:
            times[name].append(start() * 1e3)
            print(f"{name}: {times[name][-1]:.1f}", file=sys.stderr, flush=True)
    running.close()
    print(f"{'start to the first session, in ms':<44} {'median':>9} {'spread':>8}", file=output)
    for name, all_of in times.items():
        median = statistics.median(all_of)
        spread = (max(all_of) - min(all_of)) / 2 / median * 100
        print(f"{name:<44} {median:>9.1f} {spread:>7.1f}%", file=output)
    output.flush()


if __name__ == "__main__":
    sys.exit(main())
