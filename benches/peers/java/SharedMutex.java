import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadPoolExecutor;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** One lock of two sessions, each with as many threads as the size says. */
final class SharedMutex implements Workload {
    private static final int SESSIONS = 2;

    private final Sessions sessions;
    private final ExecutorService threads;
    private final int size;

    SharedMutex(Options options) throws InterruptedException {
        size = options.size;
        sessions = new Sessions(options, SESSIONS);
        threads = Executors.newFixedThreadPool(SESSIONS * size);
        ((ThreadPoolExecutor) threads).prestartAllCoreThreads();
    }

    @Override
    public Round prepare(String path, int operations) {
        int each = operations / (SESSIONS * size);
        List<InterProcessMutex> locks = new ArrayList<>();
        for (int session = 0; session < SESSIONS; session++) {
            locks.add(new InterProcessMutex(sessions.get(session), path));
        }
        return new Round() {
            private final Inside inside = new Inside();

            private void use(InterProcessMutex lock, Samples samples) throws Exception {
                for (int turn = 0; turn < each; turn++) {
                    long called = System.nanoTime();
                    lock.acquire();
                    samples.add(System.nanoTime() - called);
                    inside.enter();
                    inside.leave();
                    lock.release();
                }
            }

            @Override
            public void run(Samples samples) throws Exception {
                List<Future<?>> running = new ArrayList<>();
                for (int thread = 0; thread < SESSIONS * size; thread++) {
                    InterProcessMutex lock = locks.get(thread % SESSIONS);
                    running.add(threads.submit(() -> {
                        use(lock, samples);
                        return null;
                    }));
                }
                for (Future<?> one : running) {
                    one.get();
                }
            }

            @Override
            public int operations() {
                return each * SESSIONS * size;
            }

            @Override
            public String check() {
                return "max_holders=" + inside.most() + " acquired=" + inside.entered();
            }
        };
    }

    @Override
    public void close() {
        threads.shutdownNow();
        sessions.close();
    }
}
