import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;

/**
 * Apache Curator's ServiceDiscovery and ServiceProvider, told on standard input what to do.
 *
 * <p>Arguments: connectString basePath. Commands, one a line, each answered with one line on standard output:
 *
 * <ul>
 *   <li>{@code register NAME ID ADDRESS PORT WEIGHT TYPE}: registers an instance with a map as payload; answers "ok"
 *   <li>{@code update NAME ID ADDRESS PORT WEIGHT TYPE}: updates it; answers "ok"
 *   <li>{@code unregister}: removes it; answers "ok"
 *   <li>{@code query NAME}: answers "id=address:port/weight/enabled/uri" of each instance, sorted
 *   <li>{@code names}: answers the names of the services, sorted
 *   <li>{@code balance NAME IDS}: waits until the provider picks these ids, in any order, and no other one, in sixty picks;
 *       answers "ok"
 * </ul>
 *
 * <p>Ends with its standard input. Exit codes: 0 done, 1 failed, 2 wrong arguments.
 */
public final class CuratorDiscovery {
    private static ServiceDiscovery<Object> discovery;
    private static ServiceInstance<Object> instance;
    private static final Map<String, ServiceProvider<Object>> providers = new TreeMap<>();

    public static void main(String[] args) throws Exception {
        if (args.length != 2) {
            System.err.println("arguments: connectString basePath");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.SHORT_SESSION_MILLIS)) {
            discovery = ServiceDiscoveryBuilder.builder(Object.class).client(client).basePath(args[1]).build();
            discovery.start();
            CuratorClient.answerCommands(line -> run(line.split(" ")));
            for (ServiceProvider<Object> provider : providers.values()) {
                provider.close();
            }
            discovery.close();
        }
    }

    private static String run(String[] words) throws Exception {
        switch (words[0]) {
            case "register":
                instance = instance(words);
                discovery.registerService(instance);
                return "ok";
            case "update":
                instance = instance(words);
                discovery.updateService(instance);
                return "ok";
            case "unregister":
                discovery.unregisterService(instance);
                return "ok";
            case "query":
                TreeSet<String> found = new TreeSet<>();
                for (ServiceInstance<Object> each : discovery.queryForInstances(words[1])) {
                    found.add(shown(each));
                }
                return String.join(" ", found);
            case "names":
                return String.join(" ", new TreeSet<>(discovery.queryForNames()));
            case "balance":
                return balance(words[1], new TreeSet<>(java.util.List.of(words[2].split(","))));
            default:
                return "unknown command";
        }
    }

    private static ServiceInstance<Object> instance(String[] words) throws Exception {
        Map<String, Object> payload = new java.util.LinkedHashMap<>();
        payload.put("weight", Integer.parseInt(words[5]));
        return ServiceInstance.builder()
                .name(words[1])
                .id(words[2])
                .address(words[3])
                .port(Integer.parseInt(words[4]))
                .payload(payload)
                .serviceType(ServiceType.valueOf(words[6]))
                .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
                .build();
    }

    private static String shown(ServiceInstance<Object> each) {
        Object weight = each.getPayload() instanceof Map ? ((Map<?, ?>) each.getPayload()).get("weight") : "-";
        return each.getId() + "=" + each.getAddress() + ":" + each.getPort() + "/" + weight + "/" + each.isEnabled() + "/"
                + each.buildUriSpec();
    }

    private static String balance(String name, Collection<String> ids) throws Exception {
        ServiceProvider<Object> provider = providers.get(name);
        if (provider == null) {
            provider = discovery.serviceProviderBuilder().serviceName(name).build();
            provider.start();
            providers.put(name, provider);
        }
        TreeSet<String> picked = new TreeSet<>();
        for (long end = System.nanoTime() + 30_000_000_000L; System.nanoTime() < end; Thread.sleep(20)) {
            picked.clear();
            for (int pick = 0; pick < 60; pick++) {
                ServiceInstance<Object> next = provider.getInstance();
                if (next != null) {
                    picked.add(next.getId());
                }
            }
            if (picked.equals(ids)) {
                return "ok";
            }
        }
        return "picked " + picked;
    }
}
