"""A network in front of a ZooKeeper server in which every packet takes the same time, and which counts the requests.

zk-fault-proxy delays one request after another, so requests that are sent at the same time would seem to wait for each
other. Here each packet is delayed on its own. For each line of standard input, prints the requests since the last line
as JSON, and ends with standard input:

    python3 distance.py --server 127.0.0.1:2181 --one-way-ms 1
"""

import argparse
import collections
import json
import queue
import socket
import struct
import sys
import threading
from time import perf_counter, sleep

CHUNK = 1 << 16
NAMES = {
    1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 6: "getACL", 8: "getChildren", 9: "sync",
    12: "getChildren2", 14: "multi", 15: "create2", 18: "removeWatches", 22: "multiRead", 101: "setWatches",
    105: "setWatches2", 106: "addWatch", 107: "whoAmI", -11: "closeSession",
}
PING = 11


class Heads:
    """Finds the frames in one direction of a connection. A frame begins with its length and two numbers."""

    LENGTH = 12

    def __init__(self):
        self.head = b""
        self.left = 0

    def feed(self, chunk):
        """Yields the two numbers of each frame whose beginning is complete."""
        at = 0
        while at < len(chunk):
            if self.left:
                skipped = min(self.left, len(chunk) - at)
                self.left -= skipped
                at += skipped
                continue
            part = chunk[at : at + self.LENGTH - len(self.head)]
            self.head += part
            at += len(part)
            if len(self.head) < self.LENGTH:
                return
            length, first, second = struct.unpack(">iii", self.head)
            self.head = b""
            # A four-letter word has a text as its response, which only looks like frames.
            self.left = max(0, length - 8)
            yield first, second


class Meter:
    """The requests of all connections since the last reading, without pings and handshakes.

    A round trip is a step of the longest chain of requests each of which was sent after the response to the one before
    had arrived. So a request that does not need this response, and is late by chance, counts as well.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.clear()

    def clear(self):
        self.requests = collections.Counter()
        self.steps = {}
        self.answered = 0
        self.rounds = 0

    def sent(self, connection, xid, operation):
        with self.lock:
            self.requests[NAMES.get(operation, f"operation {operation}")] += 1
            step = self.answered + 1
            self.steps[connection, xid] = step
            self.rounds = max(self.rounds, step)

    def arrived(self, connection, xid):
        with self.lock:
            self.answered = max(self.answered, self.steps.pop((connection, xid), 0))

    def read(self):
        with self.lock:
            reading = {"requests": dict(self.requests), "round_trips": self.rounds}
            self.clear()
        return reading


class Connection:
    """A client, its server, and the packets on their way."""

    def __init__(self, number, client, server, meter, one_way):
        self.number = number
        self.meter = meter
        self.one_way = one_way
        for stream in (client, server):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, sink, look in ((client, server, self.requests), (server, client, self.responses)):
            packets = queue.SimpleQueue()
            threading.Thread(target=self.receive, args=(source, packets, look, Heads()), daemon=True).start()
            threading.Thread(target=self.deliver, args=(sink, packets), daemon=True).start()

    def receive(self, source, packets, look, heads):
        is_first = True
        while True:
            try:
                chunk = source.recv(CHUNK)
            except OSError:
                chunk = b""
            due = perf_counter() + self.one_way
            arriving = []
            for first, second in heads.feed(chunk):
                if not is_first:
                    arriving += look(first, second)
                # The first frame is the handshake.
                is_first = False
            packets.put((due, chunk, arriving))
            if not chunk:
                return

    def requests(self, xid, operation):
        if operation != PING:
            self.meter.sent(self.number, xid, operation)
        return []

    @staticmethod
    def responses(xid, _zxid):
        return [xid]

    def deliver(self, sink, packets):
        while True:
            due, chunk, arriving = packets.get()
            sleep(max(0.0, due - perf_counter()))
            for xid in arriving:
                self.meter.arrived(self.number, xid)
            try:
                if not chunk:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(chunk)
            except OSError:
                # The other direction ends as well.
                sink.close()
                return


def accept(listener, server, meter, one_way):
    number = 0
    while True:
        client, _ = listener.accept()
        number += 1
        try:
            Connection(number, client, socket.create_connection(server), meter, one_way)
        except OSError:
            client.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--one-way-ms", type=float, required=True)
    options = parser.parse_args()
    host, port = options.server.rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    meter = Meter()
    arguments = (listener, (host, int(port)), meter, options.one_way_ms / 1e3)
    threading.Thread(target=accept, args=arguments, daemon=True).start()
    print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
    for _ in sys.stdin:
        print(json.dumps(meter.read()), flush=True)


if __name__ == "__main__":
    main()
