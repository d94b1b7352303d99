"""Two kazoo clients, one and two, contend for its recipes: in each, one holds and two waits.

Arguments: HOST:PORT BASE. Prints READY when all nodes exist, and keeps them until its input ends.
"""

import datetime
import sys
import threading
import time

from kazoo.client import KazooClient

hosts, base = sys.argv[1:]
one, two = (KazooClient(hosts=hosts, timeout=10) for _ in range(2))
for client in (one, two):
    client.start(timeout=30)


def in_background(function):
    threading.Thread(target=function, daemon=True).start()


def until(path, count):
    while not one.exists(path) or len(one.get_children(path)) < count:
        time.sleep(0.02)


one.Lock(base + "/lock", "one").acquire()
in_background(two.Lock(base + "/lock", "two").acquire)
until(base + "/lock", 2)

one.ReadLock(base + "/rw", "one").acquire()
in_background(two.WriteLock(base + "/rw", "two").acquire)
until(base + "/rw", 2)

one.Semaphore(base + "/semaphore", "one", max_leases=1).acquire()
in_background(two.Semaphore(base + "/semaphore", "two", max_leases=1).acquire)
until(base + "/semaphore-__lock__", 1)

one.Party(base + "/party", "one").join()
one.ShallowParty(base + "/shallow", "one").join()
one.NonBlockingLease(base + "/lease", datetime.timedelta(hours=1), "one")
in_background(two.DoubleBarrier(base + "/double", 2, "two").enter)
until(base + "/double", 1)

queue = one.Queue(base + "/queue")
queue.put(b"late", 200)
queue.put(b"first", 100)
claims = one.LockingQueue(base + "/claims")
claims.put_all([b"taken", b"free"])
claims.get(timeout=60)
print("READY", flush=True)
sys.stdin.read()
