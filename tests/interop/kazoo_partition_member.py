"""A member of kazoo's SetPartitioner, next to members of ours, that proves exclusion without trusting it.

Arguments: HOST:PORT PATH WITNESS ID PART…. For each part that it owns it creates the ephemeral node WITNESS/PART, which fails if
another member is there. Prints OWNS with its parts whenever it has acquired them. Leaves at the end of its input, and prints
DONE.
"""

import sys
import threading
import time

from kazoo.client import KazooClient

hosts, path, witness, identifier, *parts = sys.argv[1:]
zk = KazooClient(hosts=hosts, timeout=10)
zk.start(timeout=30)
leaves = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), leaves.set()), daemon=True).start()
partitioner = zk.SetPartitioner(path, set=set(parts), identifier=identifier, time_boundary=1)
owned = None
while not leaves.is_set():
    if partitioner.failed:
        sys.exit("the partitioner has failed")
    if partitioner.release:
        for part in owned or []:
            zk.delete(witness + "/" + part)
        owned = None
        partitioner.release_set()
    elif partitioner.acquired:
        if owned is None:
            owned = sorted(partitioner)
            for part in owned:
                zk.create(witness + "/" + part, identifier.encode(), ephemeral=True)
            print("OWNS", *owned, flush=True)
        time.sleep(0.02)
    elif partitioner.allocating:
        partitioner.wait_for_acquire(timeout=0.2)
for part in owned or []:
    zk.delete(witness + "/" + part)
partitioner.finish()
zk.stop()
print("DONE", flush=True)
