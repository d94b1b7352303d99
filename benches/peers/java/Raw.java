import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.BackgroundCallback;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.CuratorEventType;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;

/**
 * Requests of one session. One at a time, they are calls that wait; several are sent in the background, the next
 * by the callback of the one before.
 */
abstract class Raw implements Workload {
    private final Sessions sessions;
    private final int inFlight;
    final CuratorFramework client;
    final byte[] payload;

    Raw(Options options) throws InterruptedException {
        sessions = new Sessions(options, 1);
        client = sessions.first();
        inFlight = options.size;
        payload = new byte[options.payload];
    }

    @Override
    public void close() {
        sessions.close();
    }

    String node(String path) throws Exception {
        return client.create().creatingParentsIfNeeded().forPath(path, payload);
    }

    /** The requests of a round, each an operation or a step of one. */
    abstract class Requests implements Round {
        private final int operations;
        private final AtomicInteger begun = new AtomicInteger();
        private final CompletableFuture<Void> finished = new CompletableFuture<>();
        private final AtomicInteger done = new AtomicInteger();

        Requests(int operations) {
            this.operations = operations;
        }

        /** Does operation number `index` and waits for it. */
        abstract void call(int index) throws Exception;

        /** Begins it in the background. */
        abstract void send(int index, BackgroundCallback callback) throws Exception;

        /** Takes an answer; whether the operation is complete. If not, the next step of it has been sent. */
        abstract boolean answered(int index, CuratorEvent event, BackgroundCallback callback) throws Exception;

        @Override
        public int operations() {
            return operations;
        }

        @Override
        public void run(Samples samples) throws Exception {
            if (inFlight == 1) {
                for (int index = 0; index < operations; index++) {
                    long sent = System.nanoTime();
                    call(index);
                    samples.add(System.nanoTime() - sent);
                }
                return;
            }
            for (int lane = 0; lane < Math.min(inFlight, operations); lane++) {
                new Lane(samples).next();
            }
            finished.get();
        }

        /** A place for one operation under way. */
        private final class Lane implements BackgroundCallback {
            private final Samples samples;
            private int index;
            private long sent;

            Lane(Samples samples) {
                this.samples = samples;
            }

            void next() throws Exception {
                index = begun.getAndIncrement();
                if (index < operations) {
                    sent = System.nanoTime();
                    send(index, this);
                }
            }

            @Override
            public void processResult(CuratorFramework from, CuratorEvent event) {
                try {
                    Code code = Code.get(event.getResultCode());
                    if (code != Code.OK) {
                        throw KeeperException.create(code, event.getPath());
                    }
                    if (!answered(index, event, this)) {
                        return;
                    }
                    samples.add(System.nanoTime() - sent);
                    if (done.incrementAndGet() == operations) {
                        finished.complete(null);
                    }
                    next();
                } catch (Exception error) {
                    finished.completeExceptionally(error);
                }
            }
        }
    }

    static final class Get extends Raw {
        Get(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            node(path);
            return new Requests(operations) {
                private long bytes;

                @Override
                void call(int index) throws Exception {
                    bytes += client.getData().forPath(path).length;
                }

                @Override
                void send(int index, BackgroundCallback callback) throws Exception {
                    client.getData().inBackground(callback).forPath(path);
                }

                @Override
                boolean answered(int index, CuratorEvent event, BackgroundCallback callback) {
                    bytes += event.getData().length;
                    return true;
                }

                @Override
                public String check() {
                    return "bytes=" + bytes;
                }
            };
        }
    }

    static final class Set extends Raw {
        Set(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            node(path);
            return new Requests(operations) {
                // That of the node before is 0: it has just been created.
                private int version;

                @Override
                void call(int index) throws Exception {
                    version = Math.max(version, client.setData().forPath(path, payload).getVersion());
                }

                @Override
                void send(int index, BackgroundCallback callback) throws Exception {
                    client.setData().inBackground(callback).forPath(path, payload);
                }

                @Override
                boolean answered(int index, CuratorEvent event, BackgroundCallback callback) {
                    version = Math.max(version, event.getStat().getVersion());
                    return true;
                }

                @Override
                public String check() {
                    return "version=" + version;
                }
            };
        }
    }

    static final class CreateDelete extends Raw {
        CreateDelete(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            node(path);
            return new Requests(operations) {
                private int created;
                private int deleted;

                @Override
                void call(int index) throws Exception {
                    String node = client.create().forPath(path + "/" + index, payload);
                    created++;
                    client.delete().forPath(node);
                    deleted++;
                }

                @Override
                void send(int index, BackgroundCallback callback) throws Exception {
                    client.create().inBackground(callback).forPath(path + "/" + index, payload);
                }

                @Override
                boolean answered(int index, CuratorEvent event, BackgroundCallback callback) throws Exception {
                    if (event.getType() == CuratorEventType.CREATE) {
                        created++;
                        client.delete().inBackground(callback).forPath(event.getName());
                        return false;
                    }
                    deleted++;
                    return true;
                }

                @Override
                public String check() {
                    return "created=" + created + " deleted=" + deleted;
                }
            };
        }
    }
}
