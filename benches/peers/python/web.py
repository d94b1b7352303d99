"""Measures `zkc web`, and kazoo for comparison: scripts/measure-web prepares what it needs, and runs it. ZK_CONNECT is a server."""

import argparse
import collections
import contextlib
import hashlib
import http.client
import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

from kazoo.client import KazooClient

ONE_WAY_MS = 1.0
LARGE = 100_000
ROWS = 200
CHILDREN = 20
CHANGES = 1_000
PAUSE = 0.01
VIEWERS = 100
WARM_UP = 50
DATA = json.dumps({"name": "orders", "port": 8080, "tags": ["a", "b"], "text": "x" * 120}).encode()
SMALL = b"x" * 100
HERE = os.path.dirname(os.path.abspath(__file__))


class Samples:
    """Numbers by name, in the order of their rows."""

    def __init__(self):
        self.of = collections.defaultdict(list)

    def add(self, name, value):
        self.of[name].append(value)

    def median(self, name):
        return statistics.median(self.of[name])

    def text(self, name, unit, digits=1):
        values = self.of[name]
        low, middle, high = min(values), statistics.median(values), max(values)
        return f"{middle:.{digits}f} [{low:.{digits}f}–{high:.{digits}f}] {unit}".rstrip()

    def met(self, name, target):
        return "yes" if self.median(name) <= target else "no"


class Program:
    """A process that ends with this one, by its id."""

    def __init__(self, command, environment=None):
        environment = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{command[0]} has ended with exit code {self.process.wait()}")
        self.address = line.split()[-1].removeprefix("http://")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def memory(self):
        """Returns the present and the greatest memory in MB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        return tuple(int(fields[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))


class Distance(Program):
    """A network: see distance.py."""

    def __init__(self, server):
        command = [sys.executable, "-B", f"{HERE}/distance.py", "--server", server, "--one-way-ms", str(ONE_WAY_MS)]
        super().__init__(command)

    def read(self):
        """Returns the requests since the last reading, by operation, and their round trips."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        reading = json.loads(self.process.stdout.readline())
        return collections.Counter(reading["requests"]), reading["round_trips"]


class Explorer(Program):
    """`zkc web`."""

    def __init__(self, zkc, servers, work, arguments=()):
        command = [zkc, "web", "--quiet", "--servers", servers, "--listen", "127.0.0.1:0", *arguments]
        super().__init__(command, {"XDG_CONFIG_HOME": work})

    def connection(self, timeout=60):
        host, port = self.address.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=timeout)


def load(connection, url, token=None):
    """Loads a page. Returns its seconds and its bytes."""
    headers = {"Accept": "text/html", **({"Authorization": f"Bearer {token}"} if token else {})}
    began = time.perf_counter()
    connection.request("GET", url, headers=headers)
    response = connection.getresponse()
    body = response.read()
    seconds = time.perf_counter() - began
    assert response.status == 200, (url, response.status, body[:500])
    return seconds, len(body)


class Viewer:
    """A live page as the script of the explorer keeps it: at most one load at a time, and the newest news count."""

    def __init__(self, explorer, path, token=None):
        self.explorer, self.path, self.token = explorer, path, token
        self.changed = threading.Condition()
        self.due, self.shown, self.ended = None, None, False
        self.failure, self.stream = None, None
        self.threads = [threading.Thread(target=self.watched, args=(work,), daemon=True) for work in (self.follow, self.show)]
        for thread in self.threads:
            thread.start()

    def watched(self, work):
        try:
            work()
        except Exception as failure:
            if not self.ended:
                self.failure = failure

    def follow(self):
        """Reads the news."""
        connection = self.stream = self.explorer.connection(timeout=None)
        headers = {"Accept": "text/event-stream", **({"Authorization": f"Bearer {self.token}"} if self.token else {})}
        connection.request("GET", f"/api/v1/watch{self.path}", headers=headers)
        response = connection.getresponse()
        assert response.status == 200, (response.status, response.read(500))
        while line := response.readline():
            if not line.startswith(b"data:"):
                continue
            news = json.loads(line.removeprefix(b"data:"))
            if news["state"] == "fresh":
                with self.changed:
                    self.due = news["generation"]
                    self.changed.notify_all()
        raise ConnectionError("the stream has ended")

    def show(self):
        """Loads the page after news."""
        connection = self.explorer.connection()
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.ended or self.due != self.shown)
                if self.ended:
                    return
                due = self.due
            load(connection, f"/tree{self.path}", self.token)
            with self.changed:
                self.shown = due

    def state(self):
        if self.failure:
            raise self.failure
        with self.changed:
            return self.due, self.shown

    def end(self):
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        # Wakes the thread that reads the news.
        with contextlib.suppress(OSError):
            self.stream.sock.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(timeout=60)


def settled(viewers, quiet=1.0, deadline=60.0):
    """Waits until all viewers show the newest state, and nothing has changed for a second."""
    ends = time.monotonic() + deadline
    before, since = None, time.monotonic()
    while True:
        states = [viewer.state() for viewer in viewers]
        now = time.monotonic()
        if states != before or any(due is None or due != shown for due, shown in states):
            before, since = states, now
        elif now - since >= quiet:
            return
        assert now < ends, "the viewers do not come to rest"
        time.sleep(0.02)


def new_client(servers):
    client = KazooClient(hosts=servers, timeout=30)
    client.start(timeout=60)
    return client


def create(client, nodes):
    """Creates nodes, a thousand in a transaction."""
    for begin in range(0, len(nodes), 1000):
        transaction = client.transaction()
        for path, data in nodes[begin : begin + 1000]:
            transaction.create(path, data)
        failed = [result for result in transaction.commit() if isinstance(result, Exception)]
        assert not failed, failed[0]


def prepare(client, rounds):
    pages = [f"/page/n{number}" for number in range(WARM_UP + rounds)]
    nodes = [("/page", b""), ("/large", b""), ("/live", b"")]
    for page in pages:
        nodes.append((page, DATA))
        nodes += [(f"{page}/child-{number}", SMALL) for number in range(CHILDREN)]
    nodes += [(f"/live/n{number:02}", SMALL) for number in range(CHILDREN)]
    nodes += [(f"/large/node-{number:010}", SMALL) for number in range(LARGE)]
    create(client, nodes)
    return pages


def measured(samples, name, distance, call):
    """Measures a call: its milliseconds, and the requests and round trips that it costs. Returns its result."""
    distance.read()
    began = time.perf_counter()
    result = call()
    took = time.perf_counter() - began
    requests, round_trips = distance.read()
    samples.add(f"{name}: ms", took * 1e3)
    samples.add(f"{name}: requests", requests.total())
    samples.add(f"{name}: round trips", round_trips)
    samples.of[f"{name}: operations"] = [requests]
    return result


def all_of(calls):
    """Waits for calls that were sent together."""
    for call in list(calls):
        call.get(timeout=60)


def measure_pages(options, samples, servers, pages):
    with Distance(servers) as near_web, Distance(servers) as near_kazoo, contextlib.ExitStack() as ends:
        explorer = ends.enter_context(Explorer(options.zkc, near_web.address, options.work))
        client = new_client(near_kazoo.address)
        ends.callback(client.stop)
        connection = explorer.connection()

        def page(name, url):
            _, size = measured(samples, name, near_web, lambda: load(connection, url))
            samples.add(f"{name}: KB", size / 1e3)

        # Waits for the session, and asks the server for its identities once.
        measured(samples, "first", near_web, lambda: load(connection, "/tree"))
        present, _ = explorer.memory()
        samples.add("memory: idle", present)
        warm, cold = pages[:WARM_UP], pages[WARM_UP:]
        for path in warm:
            load(connection, f"/node{path}")
            client.get(path), client.get_children(path), client.get_acls(path)
        for path in cold:
            measured(samples, "round trip", near_kazoo, lambda: client.exists("/"))
            page("node, first", f"/node{path}")
            page("node, again", f"/node{path}")
            viewer = Viewer(explorer, path)
            settled([viewer], quiet=0.1)
            load(connection, f"/node{path}")
            page("node, live", f"/node{path}")
            viewer.end()
            measured(samples, "kazoo node", near_kazoo, lambda: node_by_kazoo(client, path))
            measured(samples, "kazoo node, stats", near_kazoo, lambda: node_by_kazoo(client, path, stats=True))
            page("tree", "/tree/large")
            measured(samples, "kazoo tree", near_kazoo, lambda: tree_by_kazoo(client, is_pipelined=True))
            measured(samples, "kazoo tree, in turn", near_kazoo, lambda: tree_by_kazoo(client, is_pipelined=False))


def node_by_kazoo(client, path, stats=False):
    client.get(path)
    children = client.get_children(path)
    client.get_acls(path)
    if stats:
        for child in children:
            client.exists(f"{path}/{child}")


def tree_by_kazoo(client, is_pipelined):
    names = sorted(client.get_children("/large"))[:ROWS]
    paths = [f"/large/{name}" for name in names]
    if is_pipelined:
        all_of([client.exists_async(path) for path in paths])
    else:
        for path in paths:
            client.exists(path)


def measure_viewers(options, samples, servers, client, count):
    """Measures the requests of an explorer with viewers while a subtree changes, and its memory."""
    users = [(f"user{number}", secrets.token_hex(32)) for number in range(count)]
    file = f"{options.work}/users"
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.writelines(f"{name} {hashlib.sha256(token.encode()).hexdigest()}\n" for name, token in users)
    with Distance(servers) as distance, Explorer(options.zkc, distance.address, options.work, ["--users", file]) as explorer:
        load(explorer.connection(), "/tree", users[0][1])
        viewers = [Viewer(explorer, "/live", token) for _, token in users]
        settled(viewers)
        samples.add(f"memory: {count} viewers, at rest", explorer.memory()[0])
        distance.read()
        writes = []
        for number in range(CHANGES):
            writes.append(client.set_async(f"/live/n{number % CHILDREN:02}", b"%d" % number))
            time.sleep(PAUSE)
        all_of(writes)
        settled(viewers)
        requests, _ = distance.read()
        samples.add(f"viewers {count}: requests", requests.total())
        samples.of[f"viewers {count}: operations"] = [requests]
        present, greatest = explorer.memory()
        samples.add(f"memory: {count} viewers", present)
        samples.add(f"memory: {count} viewers, greatest", greatest)
        for viewer in viewers:
            viewer.end()


def measure_starts(options, samples, servers):
    """Measures a whole command, from the start of its process to its end."""
    with Program([options.test_server, "--port", "0", "--until-eof"]) as embedded:
        for address in (embedded.address, servers):
            client = new_client(address)
            client.create("/start", SMALL)
            client.stop()
        commands = {
            "start: zkc --version": (embedded.address, ["--version"]),
            "start: zkc get, zk-test-server": (embedded.address, ["get", "/start"]),
            "start: zkc get, Apache ZooKeeper": (servers, ["get", "/start"]),
        }
        for _ in range(5 * options.rounds):
            for name, (address, arguments) in commands.items():
                environment = {**os.environ, "ZK_CONNECT": address, "XDG_CONFIG_HOME": options.work}
                began = time.perf_counter()
                subprocess.run([options.dist, *arguments], stdout=subprocess.DEVNULL, env=environment, check=True)
                samples.add(name, (time.perf_counter() - began) * 1e3)


def cost(samples, name):
    """Returns the time, the requests and the round trips of a row."""
    parts = [samples.text(f"{name}: ms", "ms")]
    parts += [samples.text(f"{name}: {unit}", unit, 0) for unit in ("requests", "round trips")]
    return ", ".join(parts)


def meets(samples, name, milliseconds, requests, round_trips):
    limits = (("ms", milliseconds), ("requests", requests), ("round trips", round_trips))
    is_met = all(samples.median(f"{name}: {unit}") <= limit for unit, limit in limits if limit is not None)
    return "yes" if is_met else "no"


def operations(samples, name):
    counts = samples.of[f"{name}: operations"][-1]
    return ", ".join(f"{count} {operation}" for operation, count in sorted(counts.items())) or "none"


def print_table(options, samples):
    kazoo_node = (
        f"kazoo: get, get_children, get_acls: {cost(samples, 'kazoo node')}; with exists of each child: "
        f"{cost(samples, 'kazoo node, stats')}"
    )
    kazoo_tree = (
        f"kazoo: get_children and {ROWS} exists, sent together: {cost(samples, 'kazoo tree')}; one after another: "
        f"{cost(samples, 'kazoo tree, in turn')}"
    )
    one, many = "viewers 1: requests", f"viewers {VIEWERS}: requests"
    size = os.path.getsize(options.dist) / 1e6
    resting = samples.text(f"memory: {VIEWERS} viewers, at rest", "MB")
    greatest = samples.text(f"memory: {VIEWERS} viewers, greatest", "MB")
    # A change can be reported while viewers load the page, and the watch is one request.
    is_shared = "yes" if samples.median(many) <= 1.1 * samples.median(one) + 2 else "no"
    embedded = "start: zkc get, zk-test-server"
    rows = [
        ("page of a node, first request", "≤ 30 ms, 2 round trips", cost(samples, "node, first"),
         meets(samples, "node, first", 30, None, 2), kazoo_node),
        ("the same page again", "≤ 30 ms, 2 round trips", cost(samples, "node, again"),
         meets(samples, "node, again", 30, None, 2), ""),
        ("the same page again, with a live viewer", "no request", cost(samples, "node, live"),
         meets(samples, "node, live", 30, 0, 0), ""),
        (f"tree of {LARGE:,} children, first page", "≤ 300 ms, 2 requests", cost(samples, "tree"),
         meets(samples, "tree", 300, 2, 2), kazoo_tree),
        ("the size of this page", "≤ 300 KB", samples.text("tree: KB", "KB", 0), samples.met("tree: KB", 300), ""),
        (f"{VIEWERS} live viewers, {CHANGES:,} changes", "requests of one viewer", samples.text(many, "requests", 0),
         is_shared, f"1 viewer: {samples.text(one, 'requests', 0)}"),
        ("memory of `zkc web`, idle", "≤ 15 MB", samples.text("memory: idle", "MB"), samples.met("memory: idle", 15), ""),
        (f"memory with {VIEWERS} viewers", "≤ 60 MB", samples.text(f"memory: {VIEWERS} viewers", "MB"),
         samples.met(f"memory: {VIEWERS} viewers, greatest", 60), f"before the changes {resting}; greatest {greatest}"),
        ("size of `zkc`, profile `dist`", "≤ 12 MB", f"{size:.1f} MB", "yes" if size <= 12 else "no", ""),
        ("`zkc get`, zk-test-server", "≤ 5 ms", samples.text(embedded, "ms"), samples.met(embedded, 5),
         f"`zkc --version`: {samples.text('start: zkc --version', 'ms')}"),
        ("`zkc get`, Apache ZooKeeper", "", samples.text("start: zkc get, Apache ZooKeeper", "ms"), "",
         "its sessions are written to the disk"),
    ]
    print("| what | target | median [min–max] | met | for comparison |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()
    print(f"A round trip of kazoo takes {samples.text('round trip: ms', 'ms')}. Operations of the last round:")
    print()
    for name, title in (
        ("first", "first page of a session, a tree"),
        ("node, first", "page of a node"),
        ("tree", "tree"),
        ("viewers 1", "1 viewer"),
        (f"viewers {VIEWERS}", f"{VIEWERS} viewers"),
    ):
        print(f"* {title}: {operations(samples, name)}")


def main():
    # A signal ends the programs as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkc", required=True)
    parser.add_argument("--dist", required=True)
    parser.add_argument("--test-server", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    servers, samples = os.environ["ZK_CONNECT"], Samples()
    client = new_client(servers)
    pages = prepare(client, options.rounds)
    measure_pages(options, samples, servers, pages)
    for _ in range((options.rounds + 2) // 3):
        for count in (1, VIEWERS):
            measure_viewers(options, samples, servers, client, count)
    client.stop()
    measure_starts(options, samples, servers)
    print_table(options, samples)


if __name__ == "__main__":
    main()
