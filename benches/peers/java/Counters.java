import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Increments: of one session for each thread, or of all threads with one session. */
final class Counters implements Workload {
    /** Without pauses, eight of them need three times as many requests. */
    private static final int PAUSE_MS = 1;
    private static final int TRIES = 29;
    private static final int LONGEST_PAUSE_MS = 50;

    private final Sessions sessions;
    private final ExecutorService threads;
    private final int count;

    Counters(Options options, boolean share) throws InterruptedException {
        count = options.size;
        sessions = new Sessions(options, share ? 1 : count);
        threads = Executors.newFixedThreadPool(count);
        ((ThreadPoolExecutor) threads).prestartAllCoreThreads();
    }

    @Override
    public Round prepare(String path, int operations) {
        return new Round() {
            private final int each = operations / count;
            private final Set<Long> seen = ConcurrentHashMap.newKeySet();
            private final AtomicLong highest = new AtomicLong();

            private void increment(CuratorFramework client, Samples samples) throws Exception {
                ExponentialBackoffRetry retry = new ExponentialBackoffRetry(PAUSE_MS, TRIES, LONGEST_PAUSE_MS);
                DistributedAtomicLong counter = new DistributedAtomicLong(client, path, retry);
                for (int turn = 0; turn < each; turn++) {
                    long called = System.nanoTime();
                    AtomicValue<Long> value;
                    do {
                        value = counter.increment();
                    } while (!value.succeeded());
                    samples.add(System.nanoTime() - called);
                    seen.add(value.postValue());
                    highest.accumulateAndGet(value.postValue(), Math::max);
                }
            }

            @Override
            public void run(Samples samples) throws Exception {
                List<Future<?>> running = new ArrayList<>();
                for (int number = 0; number < count; number++) {
                    CuratorFramework client = sessions.get(number % sessions.count());
                    running.add(threads.submit(() -> {
                        increment(client, samples);
                        return null;
                    }));
                }
                for (Future<?> one : running) {
                    one.get();
                }
            }

            @Override
            public int operations() {
                return each * count;
            }

            @Override
            public String check() {
                return "highest=" + highest.get() + " distinct=" + seen.size();
            }
        };
    }

    @Override
    public void close() {
        threads.shutdownNow();
        sessions.close();
    }
}
