import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Those who acquire and release, as often as they can. */
abstract class Locks implements Workload {
    final Contenders contenders;

    Locks(Options options) throws InterruptedException {
        contenders = new Contenders(options);
    }

    @Override
    public void close() {
        contenders.close();
    }

    /** A round in which every contender has the same number of acquisitions. */
    abstract class Acquisitions implements Round {
        final int each;

        Acquisitions(int operations) {
            each = operations / contenders.count();
        }

        /** All acquisitions of a contender. */
        abstract void contend(int number, CuratorFramework client, Samples samples) throws Exception;

        @Override
        public void run(Samples samples) throws Exception {
            contenders.run((number, client) -> contend(number, client, samples));
        }

        @Override
        public int operations() {
            return each * contenders.count();
        }
    }

    /** Nobody else wants the lock. */
    static final class Mutex extends Locks {
        Mutex(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) {
            return new Acquisitions(operations) {
                private final Inside inside = new Inside();

                @Override
                void contend(int number, CuratorFramework client, Samples samples) throws Exception {
                    InterProcessMutex mutex = new InterProcessMutex(client, path);
                    for (int turn = 0; turn < each; turn++) {
                        long called = System.nanoTime();
                        mutex.acquire();
                        inside.enter();
                        inside.leave();
                        mutex.release();
                        samples.add(System.nanoTime() - called);
                    }
                }

                @Override
                public String check() {
                    return "max_holders=" + inside.most() + " acquired=" + inside.entered();
                }
            };
        }
    }

    /** The lock goes from hand to hand. */
    static final class Handover extends Locks {
        Handover(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) {
            return new Acquisitions(operations) {
                private final Inside inside = new Inside();
                /** When the last holder called release; read and written by holders only. */
                private volatile long released;

                @Override
                void contend(int number, CuratorFramework client, Samples samples) throws Exception {
                    InterProcessMutex mutex = new InterProcessMutex(client, path);
                    for (int turn = 0; turn < each; turn++) {
                        mutex.acquire();
                        long now = System.nanoTime();
                        inside.enter();
                        if (released != 0) {
                            samples.add(now - released);
                        }
                        inside.leave();
                        released = System.nanoTime();
                        mutex.release();
                    }
                }

                @Override
                public String check() {
                    return "max_holders=" + inside.most() + " acquired=" + inside.entered();
                }
            };
        }
    }

    /** One acquisition in ten is a writer's. */
    static final class ReadWrite extends Locks {
        ReadWrite(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) {
            return new Acquisitions(operations) {
                private final Inside writers = new Inside();
                private final Inside readers = new Inside();
                private final AtomicInteger mixed = new AtomicInteger();

                @Override
                void contend(int number, CuratorFramework client, Samples samples) throws Exception {
                    InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
                    for (int turn = 0; turn < each; turn++) {
                        boolean writes = (turn * contenders.count() + number) % 10 == 9;
                        InterProcessLock lock = writes ? both.writeLock() : both.readLock();
                        Inside ours = writes ? writers : readers;
                        Inside others = writes ? readers : writers;
                        long called = System.nanoTime();
                        lock.acquire();
                        samples.add(System.nanoTime() - called);
                        ours.enter();
                        if (others.now() > 0) {
                            mixed.incrementAndGet();
                        }
                        ours.leave();
                        lock.release();
                    }
                }

                @Override
                public String check() {
                    int acquired = writers.entered() + readers.entered();
                    return "max_writers=" + writers.most() + " mixed=" + mixed + " acquired=" + acquired;
                }
            };
        }
    }

    /** Half as many leases as contenders. */
    static final class Semaphore extends Locks {
        Semaphore(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) {
            int leases = Math.max(1, contenders.count() / 2);
            return new Acquisitions(operations) {
                private final Inside inside = new Inside();

                @Override
                void contend(int number, CuratorFramework client, Samples samples) throws Exception {
                    InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, leases);
                    for (int turn = 0; turn < each; turn++) {
                        long called = System.nanoTime();
                        Lease lease = semaphore.acquire();
                        samples.add(System.nanoTime() - called);
                        inside.enter();
                        inside.leave();
                        semaphore.returnLease(lease);
                    }
                }

                @Override
                public String check() {
                    return "max_holders=" + inside.most() + " acquired=" + inside.entered();
                }
            };
        }
    }
}
