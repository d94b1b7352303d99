import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.ServiceCacheListener;
import org.apache.curator.x.discovery.strategies.RoundRobinStrategy;

/** Service discovery: registrations, queries, caches, and the instance for the next call. */
final class Discoveries {
    private static final String ORDERS = "orders";

    private Discoveries() {}

    private static ServiceDiscovery<String> started(CuratorFramework client, String path) throws Exception {
        ServiceDiscovery<String> discovery =
                ServiceDiscoveryBuilder.builder(String.class).client(client).basePath(path).build();
        discovery.start();
        return discovery;
    }

    private static ServiceInstance<String> instance(int number, String payload) throws Exception {
        return ServiceInstance.<String>builder()
                .name(ORDERS)
                .id(String.format("%08d", number))
                .address("10.0.0.1")
                .port(8040)
                .payload(payload)
                .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
                .build();
    }

    private static List<ServiceInstance<String>> register(ServiceDiscovery<String> discovery, int count, String payload)
            throws Exception {
        List<ServiceInstance<String>> all = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            all.add(instance(number, payload));
            discovery.registerService(all.get(number));
        }
        return all;
    }

    /** What the workloads share: a service with its instances, and a number that is checked. */
    private abstract static class Base implements Workload {
        final Sessions sessions;
        final Options options;
        final String payload;

        Base(Options options, int clients) throws InterruptedException {
            this.options = options;
            payload = "7".repeat(options.payload);
            sessions = new Sessions(options, clients);
        }

        /** Prepared for the measured operations. */
        abstract Measured measured(ServiceDiscovery<String> discovery, String path) throws Exception;

        int instances() {
            return options.size;
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            ServiceDiscovery<String> discovery = started(sessions.get(sessions.count() - 1), path);
            Measured measured = measured(discovery, path);
            return new Round() {
                private String check;

                @Override
                public void run(Samples samples) throws Exception {
                    check = measured.run(operations, samples);
                }

                @Override
                public int operations() {
                    return operations;
                }

                @Override
                public String check() {
                    return check;
                }

                @Override
                public void close() throws Exception {
                    measured.close();
                    discovery.close();
                }
            };
        }

        @Override
        public void close() {
            sessions.close();
        }
    }

    /** The measured operations. */
    private interface Measured {
        /** Returns what was seen of them. */
        String run(int operations, Samples samples) throws Exception;

        default void close() throws Exception {}
    }

    static final class Register extends Base {
        Register(Options options) throws InterruptedException {
            super(options, 1);
        }

        @Override
        Measured measured(ServiceDiscovery<String> discovery, String path) throws Exception {
            register(discovery, 1, payload);
            return (operations, samples) -> {
                int registered = 0;
                for (int number = 1; number <= operations; number++) {
                    ServiceInstance<String> instance = instance(number, payload);
                    long began = System.nanoTime();
                    discovery.registerService(instance);
                    samples.add(System.nanoTime() - began);
                    registered++;
                    discovery.unregisterService(instance);
                }
                return "registered=" + registered;
            };
        }
    }

    static final class Query extends Base {
        Query(Options options) throws InterruptedException {
            super(options, 1);
        }

        @Override
        Measured measured(ServiceDiscovery<String> discovery, String path) throws Exception {
            register(discovery, instances(), payload);
            return (operations, samples) -> {
                int found = 0;
                for (int done = 0; done < operations; done++) {
                    long began = System.nanoTime();
                    found += discovery.queryForInstances(ORDERS).size();
                    samples.add(System.nanoTime() - began);
                }
                return "instances=" + found;
            };
        }
    }

    static final class Load extends Base {
        Load(Options options) throws InterruptedException {
            super(options, 1);
        }

        @Override
        Measured measured(ServiceDiscovery<String> discovery, String path) throws Exception {
            register(discovery, instances(), payload);
            return (operations, samples) -> {
                int found = 0;
                for (int done = 0; done < operations; done++) {
                    long began = System.nanoTime();
                    try (ServiceCache<String> cache = discovery.serviceCacheBuilder().name(ORDERS).build()) {
                        cache.start();
                        samples.add(System.nanoTime() - began);
                        found += cache.getInstances().size();
                    }
                }
                return "instances=" + found;
            };
        }
    }

    static final class Change extends Base {
        Change(Options options) throws InterruptedException {
            super(options, 2);
        }

        @Override
        Measured measured(ServiceDiscovery<String> writing, String path) throws Exception {
            List<ServiceInstance<String>> all = register(writing, instances(), payload);
            ServiceDiscovery<String> reading = started(sessions.first(), path);
            ServiceCache<String> cache = reading.serviceCacheBuilder().name(ORDERS).build();
            cache.start();
            Semaphore told = new Semaphore(0);
            cache.addListener(new ServiceCacheListener() {
                @Override
                public void cacheChanged() {
                    told.release();
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            });
            return new Measured() {
                @Override
                public String run(int operations, Samples samples) throws Exception {
                    int changes = 0;
                    for (int turn = 0; turn < operations; turn++) {
                        int number = turn % all.size();
                        String text = String.format("%0" + payload.length() + "d", turn);
                        ServiceInstance<String> changed = instance(number, text);
                        long began = System.nanoTime();
                        writing.updateService(changed);
                        do {
                            if (!told.tryAcquire(60, TimeUnit.SECONDS)) {
                                throw new IllegalStateException("no change is told");
                            }
                        } while (!isShown(cache, changed));
                        samples.add(System.nanoTime() - began);
                        changes++;
                    }
                    return "changes=" + changes;
                }

                @Override
                public void close() throws Exception {
                    cache.close();
                    reading.close();
                }
            };
        }

        private static boolean isShown(ServiceCache<String> cache, ServiceInstance<String> wanted) {
            return cache.getInstances().stream()
                    .anyMatch(at -> at.getId().equals(wanted.getId()) && at.getPayload().equals(wanted.getPayload()));
        }
    }

    static final class Pick extends Base {
        Pick(Options options) throws InterruptedException {
            super(options, 1);
        }

        @Override
        Measured measured(ServiceDiscovery<String> discovery, String path) throws Exception {
            register(discovery, instances(), payload);
            ServiceProvider<String> provider = discovery
                    .serviceProviderBuilder()
                    .serviceName(ORDERS)
                    .providerStrategy(new RoundRobinStrategy<>())
                    .build();
            provider.start();
            return new Measured() {
                @Override
                public String run(int operations, Samples samples) throws Exception {
                    Set<String> ids = new HashSet<>();
                    int picked = 0;
                    for (int done = 0; done < operations; done++) {
                        String id = provider.getInstance().getId();
                        picked += id.isEmpty() ? 0 : 1;
                        if (ids.size() < instances()) {
                            ids.add(id);
                        }
                    }
                    return "picked=" + picked + " distinct=" + ids.size();
                }

                @Override
                public void close() throws Exception {
                    provider.close();
                }
            };
        }
    }
}
