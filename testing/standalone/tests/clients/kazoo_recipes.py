"""The recipes of kazoo; see kazoo_session."""

import datetime
import threading

from kazoo.exceptions import CancelledError

from kazoo_transcript import PATIENCE, attempt, chapter, connect, join, say, show, spawn, tree, until


def locks(zk, other):
    chapter("locks")
    held = []
    first = zk.Lock("/lock", "first")
    say(first.acquire(), first.is_acquired, first.contenders(), other.exists("/lock") is not None)
    second = other.Lock("/lock", "second")
    say(second.acquire(blocking=False), second.contenders())
    attempt("in vain", second.acquire, timeout=0.05)
    until(lambda: len(zk.get_children("/lock")) == 1)
    clients = [connect() for _ in range(4)]
    queue = [client.Lock("/lock", "waiter-%d" % number) for number, client in enumerate(clients)]

    def contend(lock, label):
        with lock:
            held.append(label)

    threads = []
    for number, lock in enumerate(queue):
        threads.append(spawn(contend, lock, number))
        until(lambda: len(zk.get_children("/lock")) == number + 2)
    say(first.contenders())
    first.release()
    join(*threads)
    say("in turn:", held)
    tree(zk, "/lock")

    say("cancelled")
    first.acquire()
    outcome = []

    def give_up(lock):
        try:
            lock.acquire()
        except CancelledError:
            outcome.append("cancelled")

    thread = spawn(give_up, queue[0])
    until(lambda: len(zk.get_children("/lock")) == 2)
    queue[0].cancel()
    join(thread)
    say(outcome)

    say("a holder that dies")
    waiting = spawn(contend, queue[1], "heir")
    until(lambda: len(other.Lock("/lock").contenders()) >= 2)
    heir = connect()
    lock = heir.Lock("/lock", "next")
    thread = spawn(contend, lock, "next")
    until(lambda: len(zk.get_children("/lock")) == 3)
    first.release()
    join(waiting, thread)
    say(held)
    heir.stop()

    say("read and write")
    held.clear()
    readers = [client.ReadLock("/rw", "reader-%d" % number) for number, client in enumerate(clients[:2])]
    for reader in readers:
        say(reader.acquire())
    writer = clients[2].WriteLock("/rw", "writer")
    say("writer at once:", writer.acquire(blocking=False))
    thread = spawn(contend, writer, "writer")
    until(lambda: len(zk.get_children("/rw")) == 3)
    late = clients[3].ReadLock("/rw", "late")
    later = spawn(contend, late, "reader")
    until(lambda: len(zk.get_children("/rw")) == 4)
    say(sorted(name[32:] for name in zk.get_children("/rw")))
    for reader in readers:
        reader.release()
    join(thread, later)
    say(held)
    tree(zk, "/rw")

    say("semaphore")
    permits = [client.Semaphore("/semaphore", "holder-%d" % number, max_leases=2)
               for number, client in enumerate(clients)]
    say(permits[0].acquire(), permits[1].acquire(), permits[2].acquire(blocking=False))
    attempt("in vain", permits[2].acquire, timeout=0.05)
    say(sorted(permits[0].lease_holders()), zk.get("/semaphore")[0])
    held.clear()
    thread = spawn(contend, permits[2], "third")
    until(lambda: zk.get_children("/semaphore-__lock__"))
    permits[0].release()
    join(thread)
    say(held, sorted(permits[1].lease_holders()))
    permits[1].release()
    attempt("another limit", clients[3].Semaphore("/semaphore", max_leases=5).acquire)
    tree(zk, "/semaphore")
    tree(zk, "/semaphore-__lock__")
    say("lease", bool(zk.NonBlockingLease("/lease", datetime.timedelta(seconds=60), "one")),
        bool(other.NonBlockingLease("/lease", datetime.timedelta(seconds=60), "two")))
    for client in clients:
        client.stop()
        client.close()
    for path in ("/lock", "/rw", "/semaphore", "/semaphore-__lock__", "/lease"):
        zk.delete(path, recursive=True)


def queues(zk, other):
    chapter("queues")
    queue = zk.Queue("/queue")
    say(len(queue), queue.get())
    for value, priority in ((b"late", 200), (b"first", 100), (b"second", 100), (b"urgent", 1)):
        queue.put(value, priority)
    tree(zk, "/queue")
    say(len(queue), [other.Queue("/queue").get() for _ in range(1)], [queue.get() for _ in range(4)])
    locking = zk.LockingQueue("/locking")
    say(len(locking), locking.get(timeout=0.05))
    locking.put(b"one")
    locking.put_all([b"two", b"three"], priority=50)
    tree(zk, "/locking")
    rival = other.LockingQueue("/locking")
    say(locking.get(timeout=PATIENCE), rival.get(timeout=PATIENCE), locking.holds_lock(), rival.holds_lock())
    tree(zk, "/locking")
    say(locking.consume(), rival.release(), locking.get(timeout=PATIENCE), locking.consume(), locking.consume())
    got = []
    thread = spawn(lambda: got.append((rival.get(timeout=PATIENCE), rival.consume(), rival.get(timeout=PATIENCE))))
    until(lambda: len(zk.get_children("/locking/entries")) == 0)
    locking.put(b"awaited")
    join(thread)
    say(got, rival.consume(), len(rival))
    tree(zk, "/locking")
    for path in ("/queue", "/locking"):
        zk.delete(path, recursive=True)


def others(zk, other):
    chapter("election")
    terms = []
    first, second = zk.Election("/election", "first"), other.Election("/election", "second")
    resign = threading.Event()
    leading = spawn(first.run, lambda: (terms.append("first"), resign.wait(PATIENCE)))
    until(lambda: terms)
    following = spawn(second.run, lambda: terms.append("second"))
    until(lambda: len(zk.get_children("/election")) == 2)
    say(first.contenders())
    resign.set()
    join(leading, following)
    say(terms)
    tree(zk, "/election")

    chapter("party")
    one, two = zk.Party("/party", "one"), other.Party("/party", "two")
    one.join()
    two.join()
    say(len(one), sorted(one), sorted(two))
    tree(zk, "/party")
    one.leave()
    say(len(two), sorted(two))
    shallow = zk.ShallowParty("/shallow", "one")
    shallow.join()
    say(len(shallow), sorted(shallow))
    tree(zk, "/shallow")
    shallow.leave()
    two.leave()

    chapter("barrier")
    barrier = zk.Barrier("/barrier")
    say("none:", barrier.wait(0))
    barrier.create()
    passed = []
    thread = spawn(lambda: passed.append(other.Barrier("/barrier").wait(PATIENCE)))
    say(barrier.wait(0.01), barrier.remove(), barrier.remove())
    join(thread)
    say(passed)

    chapter("double barrier")
    order = []
    lobby = [zk.DoubleBarrier("/double", 2, "one"), other.DoubleBarrier("/double", 2, "two")]

    def meet(barrier):
        barrier.enter()
        order.append("in")
        until(lambda: order.count("in") == 2)
        barrier.leave()
        order.append("out")

    threads = [spawn(meet, barrier) for barrier in lobby]
    join(*threads)
    say(order, [barrier.participating for barrier in lobby])
    say(zk.get_children("/double"), show(zk.exists("/double")).split()[0])

    chapter("counter")
    integer, real = zk.Counter("/counter"), zk.Counter("/float", default=1.5)
    integer += 2
    integer -= 5
    real += 0.25
    say(integer.value, real.value, zk.get("/counter")[0], zk.get("/float")[0])
    counters = [client.Counter("/counter") for client in (zk, other)]

    def count(counter):
        for _ in range(25):
            counter += 1

    join(*[spawn(count, counter) for counter in counters])
    say(integer.value)
    tree(zk, "/counter")

    chapter("partitioner")
    mine = zk.SetPartitioner("/parts", set(range(6)), identifier="one", time_boundary=0.1, max_reaction_time=0.1)
    mine.wait_for_acquire(PATIENCE)
    until(lambda: mine.acquired)
    say(sorted(mine))
    mine.finish()
    for path in ("/election", "/party", "/shallow", "/double", "/counter", "/float", "/parts"):
        zk.delete(path, recursive=True)
