import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException.NoNodeException;

/** Apache Curator's part in the comparison. PROTOCOL.md says what a process is asked and answers. */
public final class CuratorPeer {
    private interface Factory {
        Workload open(Options options) throws Exception;
    }

    /** Of a class of its own, because the start-up should not wait for it. */
    private static final class Known {
        static final Map<String, Factory> WORKLOADS = new LinkedHashMap<>();

        static {
            WORKLOADS.put("raw-get", Raw.Get::new);
            WORKLOADS.put("raw-set", Raw.Set::new);
            WORKLOADS.put("raw-create-delete", Raw.CreateDelete::new);
            WORKLOADS.put("mutex", Locks.Mutex::new);
            WORKLOADS.put("many-locks", ManyLocks::new);
            WORKLOADS.put("shared-mutex", SharedMutex::new);
            WORKLOADS.put("handover", Locks.Handover::new);
            WORKLOADS.put("read-write", Locks.ReadWrite::new);
            WORKLOADS.put("semaphore", Locks.Semaphore::new);
            WORKLOADS.put("leader", Leaders::new);
            WORKLOADS.put("double-barrier", DoubleBarriers::new);
            WORKLOADS.put("queue-simple-put", SimpleQueues.Put::new);
            WORKLOADS.put("queue-simple-take", SimpleQueues.Take::new);
            for (Queues.Kind kind : Queues.Kind.values()) {
                WORKLOADS.put(kind.prefix + "-put", options -> new Queues.Put(options, kind));
                WORKLOADS.put(kind.prefix + "-take", options -> new Queues.Take(options, kind, 1));
            }
            WORKLOADS.put("queue-take-window", options -> new Queues.Take(options, Queues.Kind.PLAIN, options.size));
            WORKLOADS.put("counter", options -> new Counters(options, false));
            WORKLOADS.put("counter-tasks", options -> new Counters(options, true));
            WORKLOADS.put("cache-load", Caches.Load::new);
            WORKLOADS.put("cache-change", Caches.Change::new);
            WORKLOADS.put("cache-reconnect", options -> new Caches.Reconnect(options, 1, options.size, 0));
            WORKLOADS.put("cache-reconnect-changed", options -> new Caches.Reconnect(options, 1, options.size, 10));
            WORKLOADS.put("cache-reconnect-many", options -> new Caches.Reconnect(options, options.size, 1000, 10));
            WORKLOADS.put("fleet-return", Fleet::new);
            WORKLOADS.put("discovery-register", Discoveries.Register::new);
            WORKLOADS.put("discovery-query", Discoveries.Query::new);
            WORKLOADS.put("discovery-load", Discoveries.Load::new);
            WORKLOADS.put("discovery-change", Discoveries.Change::new);
            WORKLOADS.put("discovery-pick", Discoveries.Pick::new);
            WORKLOADS.put("migrate-none", options -> new Migrations(options, 1, options.size, false));
            WORKLOADS.put("migrate-missing", options -> new Migrations(options, 1, options.size, true));
            WORKLOADS.put(
                    "migrate-fleet", options -> new Migrations(options, options.size, Migrations.MISSING, true));
            WORKLOADS.put("children-with-data", Children::new);
            WORKLOADS.put("typed-modify", Numbers.Modify::new);
            WORKLOADS.put("stm", Numbers.Transfer::new);
            WORKLOADS.put("stm-contended", Numbers.Contended::new);
            WORKLOADS.put("embedded-server", TestingServers::new);
        }
    }

    /**
     * How often the warm-up is done, at most, and for how long. An acquire and release of a lock takes a fifth of the CPU
     * time when it has been called 20,000 times, of which a single warm-up is 500.
     */
    private static final int WARMUPS = 40;

    private static final long WARMUP_NANOS = 5_000_000_000L;

    private static final BufferedReader COMMANDS = new BufferedReader(new InputStreamReader(System.in));

    public static void main(String[] arguments) {
        int code = 1;
        try {
            code = run(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
        }
        // Threads that wait must not keep the process.
        System.exit(code);
    }

    private static int run(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("--list")) {
            say("startup");
            Known.WORKLOADS.keySet().forEach(CuratorPeer::say);
            return 0;
        }
        Options options = new Options(arguments);
        if (options.workload.equals("startup")) {
            startUp(options);
            return 0;
        }
        Factory factory = Known.WORKLOADS.get(options.workload);
        if (factory == null) {
            System.err.println("unsupported: " + options.workload);
            return 3;
        }
        measure(options, factory);
        return 0;
    }

    private static void startUp(Options options) throws Exception {
        try (Sessions sessions = new Sessions(options, 1)) {
            sessions.first().getData().forPath("/");
            say("first");
            await("end");
        }
    }

    private static void measure(Options options, Factory factory) throws Exception {
        try (Workload workload = factory.open(options)) {
            warmUp(options, workload);
            try (Round round = workload.prepare(options.path + "/measured", options.operations)) {
                // What the warm-up has left in the heap is not this round's to collect.
                System.gc();
                say("ready");
                await("go");
                say(measured(options, round));
                await("end");
            }
        }
        if (!options.workload.equals("embedded-server")) {
            try (Sessions sessions = new Sessions(options, 1)) {
                clear(sessions.first(), options.path);
            }
        }
    }

    private static void warmUp(Options options, Workload workload) throws Exception {
        long began = System.nanoTime();
        // Who wants little of it wants to see that it works, and no figures.
        int turns = options.warmup >= options.operations / 2 ? WARMUPS : 1;
        for (int turn = 0; options.warmup > 0 && turn < turns; turn++) {
            try (Round round = workload.prepare(options.path + "/warm-up-" + turn, options.warmup)) {
                round.run(new Samples(options.warmup));
            }
            if (System.nanoTime() - began > WARMUP_NANOS) {
                return;
            }
        }
    }

    private static String measured(Options options, Round round) throws Exception {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        Samples samples = new Samples(options.operations);
        long cpu = system.getProcessCpuTime();
        long began = System.nanoTime();
        round.run(samples);
        long took = System.nanoTime() - began;
        cpu = system.getProcessCpuTime() - cpu;
        return String.format(
                Locale.ROOT,
                "{\"operations\":%d,\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"latencies_us\":%s,\"check\":\"%s\"}",
                round.operations(),
                took / 1e9,
                cpu / 1e9,
                samples.json(),
                round.check());
    }

    /** Removes a node with everything below it, and does not wait for one leaf after the other. */
    private static void clear(CuratorFramework client, String path) throws Exception {
        try {
            for (String child : client.getChildren().forPath(path)) {
                client.delete().inBackground().forPath(path + "/" + child);
            }
            for (String child : client.getChildren().forPath(path)) {
                clear(client, path + "/" + child);
            }
            client.delete().forPath(path);
        } catch (NoNodeException gone) {
            // Containers go by themselves.
        }
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void await(String command) throws IOException {
        String line = COMMANDS.readLine();
        if (!command.equals(line)) {
            throw new IOException("expected " + command + ", got " + line);
        }
    }
}
