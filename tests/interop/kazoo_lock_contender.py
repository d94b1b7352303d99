"""Contends with kazoo's Lock for a lock of ours, and proves mutual exclusion without trusting it.

Arguments: HOST:PORT PATH WITNESS ROUNDS LABEL [PATTERN…]. Whoever is inside creates the ephemeral node WITNESS, which fails
if somebody else is there. kazoo counts our nodes because they have its own name, or because of `extra_lock_patterns`. Prints
HELD for every round, and at last DONE.
"""

import sys

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock

hosts, path, witness, rounds, label, *patterns = sys.argv[1:]
zk = KazooClient(hosts=hosts, timeout=10)
zk.start(timeout=30)
lock = Lock(zk, path, identifier=label, extra_lock_patterns=patterns)
for _ in range(int(rounds)):
    if not lock.acquire(timeout=60):
        sys.exit("not acquired")
    zk.create(witness, label.encode(), ephemeral=True)
    print("HELD", flush=True)
    zk.delete(witness)
    lock.release()
zk.stop()
print("DONE", flush=True)
