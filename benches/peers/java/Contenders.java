import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadPoolExecutor;
import org.apache.curator.framework.CuratorFramework;

/** Threads that run at the same time, each with a client of its own. */
final class Contenders implements AutoCloseable {
    /** What one of them does. */
    interface Body {
        void run(int number, CuratorFramework client) throws Exception;
    }

    private final Sessions sessions;
    private final ExecutorService threads;

    Contenders(Options options) throws InterruptedException {
        this(options, options.size);
    }

    Contenders(Options options, int count) throws InterruptedException {
        sessions = new Sessions(options, count);
        threads = Executors.newFixedThreadPool(count);
        // To start threads is not what is measured.
        ((ThreadPoolExecutor) threads).prestartAllCoreThreads();
    }

    int count() {
        return sessions.count();
    }

    CuratorFramework first() {
        return sessions.first();
    }

    /** Runs all, and returns when all have. */
    void run(Body body) throws Exception {
        List<Future<?>> running = new ArrayList<>();
        for (int number = 0; number < count(); number++) {
            int mine = number;
            running.add(threads.submit(() -> {
                body.run(mine, sessions.get(mine));
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get();
        }
    }

    @Override
    public void close() {
        threads.shutdownNow();
        sessions.close();
    }
}
