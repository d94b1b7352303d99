import static java.nio.charset.StandardCharsets.US_ASCII;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.zookeeper.data.Stat;

/** Numbers in nodes, as decimal text, which the sessions change as often as they can. */
abstract class Numbers extends Locks {
    private Numbers(Options options) throws InterruptedException {
        super(options);
    }

    /** Creates a node with the number zero. */
    String zero(String path) throws Exception {
        return contenders.first().create().creatingParentsIfNeeded().forPath(path, text(0));
    }

    private static byte[] text(long number) {
        return Long.toString(number).getBytes(US_ASCII);
    }

    private static long number(byte[] text) {
        return Long.parseLong(new String(text, US_ASCII));
    }

    private static long locked(InterProcessMutex mutex, Callable<Long> change) throws Exception {
        mutex.acquire();
        try {
            return change.call();
        } finally {
            mutex.release();
        }
    }

    /** A round in which every contender has the same number of changes. */
    abstract class Changes extends Acquisitions {
        /** The highest number that was written. */
        final AtomicLong highest = new AtomicLong();
        private final String lock;

        Changes(String lock, int operations) {
            super(operations);
            this.lock = lock;
        }

        /** Changes the numbers, and returns the new one. */
        abstract long change(CuratorFramework client, InterProcessMutex mutex) throws Exception;

        @Override
        void contend(int number, CuratorFramework client, Samples samples) throws Exception {
            InterProcessMutex mutex = new InterProcessMutex(client, lock);
            for (int turn = 0; turn < each; turn++) {
                long called = System.nanoTime();
                long written = change(client, mutex);
                samples.add(System.nanoTime() - called);
                highest.accumulateAndGet(written, Math::max);
            }
        }

        @Override
        public String check() {
            return "highest=" + highest;
        }
    }

    /** A number is read with its version, and written if the node still has this version. */
    static final class Modify extends Numbers {
        Modify(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            String node = zero(path + "/number");
            return new Changes(path + "/lock", operations) {
                @Override
                long change(CuratorFramework client, InterProcessMutex unused) throws Exception {
                    Stat stat = new Stat();
                    long next = number(client.getData().storingStatIn(stat).forPath(node)) + 1;
                    client.setData().withVersion(stat.getVersion()).forPath(node, text(next));
                    return next;
                }
            };
        }
    }

    /** One is moved from one node to another, under a lock. */
    static final class Transfer extends Numbers {
        Transfer(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            List<String> nodes = List.of(zero(path + "/from"), zero(path + "/to"));
            return new Changes(path + "/lock", operations) {
                private volatile long total;

                @Override
                long change(CuratorFramework client, InterProcessMutex mutex) throws Exception {
                    return locked(mutex, () -> {
                        List<byte[]> read = Children.data(client, nodes);
                        long from = number(read.get(0)) - 1;
                        long to = number(read.get(1)) + 1;
                        client.transaction().forOperations(
                                client.transactionOp().setData().forPath(nodes.get(0), text(from)),
                                client.transactionOp().setData().forPath(nodes.get(1), text(to)));
                        total = from + to;
                        return to;
                    });
                }

                @Override
                public String check() {
                    return "moved=" + highest + " total=" + total;
                }
            };
        }
    }

    /** All sessions increase one number, under a lock. */
    static final class Contended extends Numbers {
        Contended(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            String node = zero(path + "/number");
            return new Changes(path + "/lock", operations) {
                @Override
                long change(CuratorFramework client, InterProcessMutex mutex) throws Exception {
                    return locked(mutex, () -> {
                        long next = number(client.getData().forPath(node)) + 1;
                        client.setData().forPath(node, text(next));
                        return next;
                    });
                }
            };
        }
    }
}
