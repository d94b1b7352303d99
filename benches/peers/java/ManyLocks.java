import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Many locks of one session, used at random by many threads. */
final class ManyLocks implements Workload {
    private static final int LOCKS = 1000;

    private final Sessions sessions;
    private final ExecutorService threads;
    private final Options options;

    ManyLocks(Options options) throws InterruptedException {
        this.options = options;
        sessions = new Sessions(options, 1);
        threads = Executors.newFixedThreadPool(options.size);
        ((ThreadPoolExecutor) threads).prestartAllCoreThreads();
    }

    /** The lock of an operation: splitmix64, the same numbers in every client. */
    private static int lockOf(long operation) {
        long mixed = (operation + 1) * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return (int) Long.remainderUnsigned(mixed ^ (mixed >>> 31), LOCKS);
    }

    @Override
    public Round prepare(String path, int operations) throws Exception {
        Caches.plant(sessions.first(), path, LOCKS, new byte[0]);
        List<InterProcessMutex> locks = new ArrayList<>();
        List<Inside> insides = new ArrayList<>();
        for (int number = 0; number < LOCKS; number++) {
            locks.add(new InterProcessMutex(sessions.first(), Caches.node(path, number)));
            insides.add(new Inside());
        }
        return new Round() {
            private final AtomicInteger next = new AtomicInteger();

            private void use(Samples samples) throws Exception {
                for (int number = next.getAndIncrement(); number < operations; number = next.getAndIncrement()) {
                    int lock = lockOf(number);
                    long called = System.nanoTime();
                    locks.get(lock).acquire();
                    insides.get(lock).enter();
                    insides.get(lock).leave();
                    locks.get(lock).release();
                    samples.add(System.nanoTime() - called);
                }
            }

            @Override
            public void run(Samples samples) throws Exception {
                List<Future<?>> running = new ArrayList<>();
                for (int thread = 0; thread < options.size; thread++) {
                    running.add(threads.submit(() -> {
                        use(samples);
                        return null;
                    }));
                }
                for (Future<?> one : running) {
                    one.get();
                }
            }

            @Override
            public int operations() {
                return insides.stream().mapToInt(Inside::entered).sum();
            }

            @Override
            public String check() {
                int most = insides.stream().mapToInt(Inside::most).max().orElse(0);
                long used = insides.stream().filter(inside -> inside.entered() > 0).count();
                return "max_holders=" + most + " acquired=" + operations() + " locks=" + used;
            }
        };
    }

    @Override
    public void close() {
        threads.shutdownNow();
        sessions.close();
    }
}
