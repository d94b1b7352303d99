"""kazoo's leases, parties, elections and semaphores, driven line by line.

Argument: HOST:PORT. Each line of the input is a command with its arguments; the answer is one line of JSON.
"""

import datetime
import json
import shlex
import sys
import threading

from kazoo.client import KazooClient
from kazoo.recipe.lease import MultiNonBlockingLease, NonBlockingLease

zk = KazooClient(hosts=sys.argv[1], timeout=10)
zk.start(timeout=30)
kept = {}
led = []


def lease(path, seconds, identifier):
    return bool(NonBlockingLease(zk, path, datetime.timedelta(seconds=int(seconds)), identifier))


def multi_lease(count, path, seconds, identifier):
    duration = datetime.timedelta(seconds=int(seconds))
    return bool(MultiNonBlockingLease(zk, int(count), path, duration, identifier))


def party(kind, path, identifier):
    kept[path] = getattr(zk, kind)(path, identifier)
    kept[path].join()
    return sorted(kept[path])


def members(path):
    return sorted(kept[path])


def leave(path):
    return kept[path].leave()


def campaign(path, identifier):
    election = zk.Election(path, identifier)
    go_on = threading.Event()
    kept[path] = go_on

    def lead():
        led.append(identifier)
        go_on.wait(60)

    thread = threading.Thread(target=election.run, args=(lead,), daemon=True)
    kept[path + " thread"] = thread
    thread.start()
    return True


def contenders(path):
    return zk.Election(path).contenders()


def leaders():
    return led


def resign(path):
    kept[path].set()
    kept[path + " thread"].join(30)
    return True


def semaphore(path, limit, identifier):
    kept[path] = zk.Semaphore(path, identifier, max_leases=int(limit))
    try:
        return kept[path].acquire(blocking=False)
    except ValueError as error:
        return str(error)


def wait_semaphore(path, limit, identifier):
    kept[path] = zk.Semaphore(path, identifier, max_leases=int(limit))
    return kept[path].acquire(timeout=30)


def lease_holders(path):
    return sorted(kept[path].lease_holders())


def release(path):
    return kept[path].release()


for line in sys.stdin:
    name, *arguments = shlex.split(line)
    print(json.dumps(globals()[name](*arguments)), flush=True)
zk.stop()
