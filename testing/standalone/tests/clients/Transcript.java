import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * What the programs beside this one need to write down what a server does: lines that are the same for servers
 * that behave the same.
 */
final class Transcript {
    static final long PATIENCE = 30_000;
    private static final Pattern DRAWN =
            Pattern.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
    private static final Pattern TIME = Pattern.compile("\\b1[0-9]{12}\\b");

    interface Condition {
        boolean holds() throws Exception;
    }

    interface Action {
        void run() throws Exception;
    }

    private Transcript() {}

    /** A line, without what is drawn anew in every run. */
    static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(show(word));
        }
        System.out.println(TIME.matcher(DRAWN.matcher(line).replaceAll("<uuid>")).replaceAll("<time>"));
    }

    static void chapter(String name) {
        System.out.println();
        System.out.println("== " + name);
    }

    /** What a call answers, or which exception it ends with. */
    static void attempt(String label, Callable<?> call) {
        Object result;
        try {
            result = call.call();
        } catch (Exception error) {
            result = error.getClass().getSimpleName();
        }
        say(label, "->", result);
    }

    static String show(Object value) {
        if (value instanceof Stat) {
            Stat stat = (Stat) value;
            return String.format("{version=%d cversion=%d aversion=%d bytes=%d children=%d ephemeral=%s %s %s}",
                    stat.getVersion(), stat.getCversion(), stat.getAversion(), stat.getDataLength(),
                    stat.getNumChildren(), stat.getEphemeralOwner() != 0,
                    stat.getMzxid() == stat.getCzxid() ? "unchanged" : "changed",
                    stat.getPzxid() == stat.getCzxid() ? "childless" : "had-children");
        }
        if (value instanceof byte[]) {
            byte[] bytes = (byte[]) value;
            for (byte each : bytes) {
                if (each < ' ' || each > '~') {
                    return Arrays.toString(bytes);
                }
            }
            return '"' + new String(bytes, StandardCharsets.US_ASCII) + '"';
        }
        if (value instanceof Map) {
            StringBuilder text = new StringBuilder("{");
            new TreeMap<>((Map<?, ?>) value).forEach(
                    (key, each) -> text.append(' ').append(key).append(": ").append(show(each)));
            return text.append(" }").toString();
        }
        if (value instanceof Collection) {
            List<String> each = new ArrayList<>();
            ((Collection<?>) value).forEach(one -> each.add(show(one)));
            return each.toString();
        }
        return String.valueOf(value);
    }

    /** Everything at and below a path. */
    static void tree(CuratorFramework client, String path) throws Exception {
        Stat stat = new Stat();
        byte[] data = client.getData().storingStatIn(stat).forPath(path);
        say("  ", path, data, stat);
        List<String> names = new ArrayList<>(client.getChildren().forPath(path));
        names.sort(Comparator.comparing(name -> DRAWN.matcher(name).replaceAll("")));
        for (String name : names) {
            tree(client, path + "/" + name);
        }
    }

    static int children(CuratorFramework client, String path) throws Exception {
        return client.getChildren().forPath(path).size();
    }

    /** Waits for what another thread is about to do, or the server by itself. */
    static void until(Condition condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE);
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("waited in vain");
            }
            Thread.sleep(5);
        }
    }

    /** Returns when every event of what has happened so far has been given to its watchers. */
    static void settled(ZooKeeper zookeeper) throws Exception {
        CountDownLatch handled = new CountDownLatch(1);
        // Events come before the answer, and the thread that calls the watchers calls this after them.
        zookeeper.sync("/", (code, path, context) -> handled.countDown(), null);
        if (!handled.await(PATIENCE, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("the events are not handled");
        }
    }

    static void settled(CuratorFramework client) throws Exception {
        settled(client.getZookeeperClient().getZooKeeper());
    }

    static Thread spawn(Action action) {
        Thread thread = new Thread(() -> {
            try {
                action.run();
            } catch (Exception error) {
                say("a thread ended with", error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static void join(Thread... threads) throws Exception {
        for (Thread thread : threads) {
            thread.join(PATIENCE);
            if (thread.isAlive()) {
                throw new IllegalStateException("a thread has not ended");
            }
        }
    }

    static CuratorFramework connect(String connectString) throws Exception {
        return connect(CuratorFrameworkFactory.builder().connectString(connectString).sessionTimeoutMs(10_000));
    }

    static CuratorFramework connect(CuratorFrameworkFactory.Builder builder) throws Exception {
        CuratorFramework client = builder.defaultData(bytes("default"))
                .connectionTimeoutMs(5_000).retryPolicy(new RetryNTimes(50, 100)).build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Between a client and the server: can be cut, and closes new connections at once until it is mended. */
    static final class Relay {
        private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final String server;
        private final List<Socket> sockets = new ArrayList<>();
        private boolean broken;

        Relay(String server) throws IOException {
            this.server = server;
            spawn(this::accept);
        }

        String connectString() {
            return "127.0.0.1:" + listener.getLocalPort();
        }

        synchronized void cut() throws IOException {
            broken = true;
            for (Socket socket : sockets) {
                socket.close();
            }
            sockets.clear();
        }

        synchronized void mend() {
            broken = false;
        }

        private void accept() throws IOException {
            while (true) {
                Socket near = listener.accept();
                synchronized (this) {
                    if (broken) {
                        near.close();
                        continue;
                    }
                    int colon = server.lastIndexOf(':');
                    Socket far = new Socket(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1)));
                    sockets.add(near);
                    sockets.add(far);
                    spawn(() -> carry(near, far));
                    spawn(() -> carry(far, near));
                }
            }
        }

        private static void carry(Socket from, Socket to) throws IOException {
            try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
                in.transferTo(out);
            } catch (IOException cut) {
                // As it was meant to be.
            }
        }
    }
}
