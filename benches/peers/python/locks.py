"""Those who acquire and release, as often as they can."""

from time import perf_counter

from sessions import Inside, Round, Sessions


class Locks:
    def __init__(self, options):
        self.sessions = Sessions(options, options.size)

    def prepare(self, path, operations):
        return self.acquisitions(self.sessions, path, operations)


class Acquisitions(Round):
    """A round in which every contender has the same number of acquisitions."""

    def __init__(self, sessions, path, operations):
        self.sessions = sessions
        self.path = path
        self.each = operations // len(sessions)
        super().__init__(self.each * len(sessions))
        self.inside = Inside()

    def run(self, samples):
        self.samples = samples
        self.sessions.run(self.contend)

    def check(self):
        return "max_holders=%d acquired=%d" % (self.inside.most, self.inside.entered)


class MutexAcquisitions(Acquisitions):
    def contend(self, number, client):
        lock = client.Lock(self.path)
        for _ in range(self.each):
            called = perf_counter()
            lock.acquire()
            self.inside.enter()
            self.inside.leave()
            lock.release()
            self.samples.add(perf_counter() - called)


class HandoverAcquisitions(Acquisitions):
    # When the last holder called release; read and written by holders only.
    released = None

    def contend(self, number, client):
        lock = client.Lock(self.path)
        for _ in range(self.each):
            lock.acquire()
            now = perf_counter()
            self.inside.enter()
            if self.released:
                self.samples.add(now - self.released)
            self.inside.leave()
            self.released = perf_counter()
            lock.release()


class ReadWriteAcquisitions(Acquisitions):
    """One acquisition in ten is a writer's."""

    def __init__(self, sessions, path, operations):
        super().__init__(sessions, path, operations)
        self.readers = Inside()
        self.writers = Inside()
        self.mixed = 0

    def contend(self, number, client):
        read, write = client.ReadLock(self.path), client.WriteLock(self.path)
        for turn in range(self.each):
            writes = (turn * len(self.sessions) + number) % 10 == 9
            lock = write if writes else read
            ours, others = (self.writers, self.readers) if writes else (self.readers, self.writers)
            called = perf_counter()
            lock.acquire()
            self.samples.add(perf_counter() - called)
            ours.enter()
            if others.now:
                self.mixed += 1
            ours.leave()
            lock.release()

    def check(self):
        acquired = self.readers.entered + self.writers.entered
        return "max_writers=%d mixed=%d acquired=%d" % (self.writers.most, self.mixed, acquired)


class SemaphoreAcquisitions(Acquisitions):
    """Half as many leases as contenders."""

    def contend(self, number, client):
        semaphore = client.Semaphore(self.path, max_leases=max(1, len(self.sessions) // 2))
        for _ in range(self.each):
            called = perf_counter()
            semaphore.acquire()
            self.samples.add(perf_counter() - called)
            self.inside.enter()
            self.inside.leave()
            semaphore.release()


class Mutex(Locks):
    acquisitions = MutexAcquisitions


class Handover(Locks):
    acquisitions = HandoverAcquisitions


class ReadWrite(Locks):
    acquisitions = ReadWriteAcquisitions


class Semaphore(Locks):
    acquisitions = SemaphoreAcquisitions
