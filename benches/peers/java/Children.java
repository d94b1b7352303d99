import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.apache.curator.framework.CuratorFramework;

/** All children of a node with their data, without a cache. */
final class Children implements Workload {
    /** The most reads under way. */
    private static final int MOST = 1024;

    private final Sessions sessions;
    private final Options options;

    Children(Options options) throws InterruptedException {
        this.options = options;
        sessions = new Sessions(options, 1);
    }

    /** The data of all children, in the order of their names. */
    static List<byte[]> data(CuratorFramework client, String path) throws Exception {
        List<String> paths = new ArrayList<>();
        for (String name : client.getChildren().forPath(path)) {
            paths.add(path + "/" + name);
        }
        paths.sort(null);
        return data(client, paths);
    }

    /** The data of all these nodes. */
    static List<byte[]> data(CuratorFramework client, List<String> paths) throws Exception {
        byte[][] found = new byte[paths.size()][];
        Semaphore free = new Semaphore(MOST);
        for (int index = 0; index < found.length; index++) {
            int mine = index;
            free.acquire();
            client.getData()
                    .inBackground((unused, event) -> {
                        found[mine] = event.getData();
                        free.release();
                    })
                    .forPath(paths.get(index));
        }
        free.acquire(MOST);
        List<byte[]> all = Arrays.asList(found);
        if (all.contains(null)) {
            throw new IllegalStateException("no data of " + paths.get(all.indexOf(null)));
        }
        return all;
    }

    @Override
    public Round prepare(String path, int operations) throws Exception {
        Caches.plant(sessions.first(), path, options.size, new byte[options.payload]);
        return new Round() {
            private long nodes;

            @Override
            public void run(Samples samples) throws Exception {
                for (int done = 0; done < operations; done++) {
                    long called = System.nanoTime();
                    List<byte[]> all = data(sessions.first(), path);
                    samples.add(System.nanoTime() - called);
                    nodes += all.stream().filter(data -> data.length == options.payload).count();
                }
            }

            @Override
            public int operations() {
                return operations;
            }

            @Override
            public String check() {
                return "nodes=" + nodes;
            }
        };
    }

    @Override
    public void close() {
        sessions.close();
    }
}
