"""What the sessions with kazoo beside this file need to write down what a server does."""

import re
import select
import socket
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import Callback
from kazoo.security import ACL

HOST, PORT = sys.argv[1].rsplit(":", 1)
PATIENCE = 30
DRAWN = re.compile("[0-9a-f]{32}")


def say(*words):
    """A line of the transcript, without what is drawn anew in every run."""
    line = " ".join(str(word) for word in words)
    print(DRAWN.sub("<uuid>", line))


def chapter(name):
    say()
    say("==", name)


def attempt(label, function, *args, **kwargs):
    """What a call answers, or which exception it ends with."""
    try:
        result = function(*args, **kwargs)
    except (KazooException, ValueError) as error:
        say(label, "->", type(error).__name__)
    else:
        say(label, "->", show(result))


def show(value):
    if hasattr(value, "czxid"):
        return "{version=%d cversion=%d aversion=%d bytes=%d children=%d ephemeral=%s %s %s}" % (
            value.version,
            value.cversion,
            value.aversion,
            value.dataLength,
            value.numChildren,
            value.ephemeralOwner != 0,
            "unchanged" if value.mzxid == value.czxid else "changed",
            "childless" if value.pzxid == value.czxid else "had-children",
        )
    if isinstance(value, ACL) or isinstance(value, (bytes, str, int, float, type(None), Exception)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value)


def tree(client, path):
    """Everything at and below a path."""
    data, stat = client.get(path)
    say("  ", path, data, show(stat))
    # In the order of what is the same in every run, then of creation.
    names = client.get_children(path)
    for name in sorted(names, key=lambda name: (DRAWN.sub("", name), client.exists(path + "/" + name).czxid)):
        tree(client, path + "/" + name)


def until(condition):
    """Waits for what another thread or process is about to do."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def settled(*clients):
    """Returns when every event of what has happened so far has been handled: it came before the answer."""
    for client in clients:
        client.sync("/")
        handled = threading.Event()
        client.handler.dispatch_callback(Callback("session", handled.set, ()))
        assert handled.wait(PATIENCE), "the events are not handled"


def connect(chroot="", hosts=None, **options):
    options.setdefault("timeout", 10)
    client = KazooClient(hosts=(hosts or "%s:%s" % (HOST, PORT)) + chroot, **options)
    client.start(timeout=PATIENCE)
    return client


def spawn(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


def join(*threads):
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread has not ended"


class Relay:
    """Between a client and the server; can be cut, and then refuses connections until it is mended."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.pairs = []
        self.broken = False
        spawn(self.accept)

    @property
    def hosts(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if self.broken:
                near.close()
                continue
            far = socket.create_connection((HOST, int(PORT)))
            self.pairs.append((near, far))
            spawn(self.carry, near, far)

    @staticmethod
    def carry(near, far):
        other = {near: far, far: near}
        try:
            while True:
                for ready in select.select([near, far], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    other[ready].sendall(data)
        except OSError:
            pass
        finally:
            for end in other:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def cut(self, broken=False):
        self.broken = broken
        for near, _ in self.pairs:
            try:
                near.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.pairs = []
