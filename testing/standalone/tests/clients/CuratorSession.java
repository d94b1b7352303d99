import static java.util.Collections.sort;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * What a user of Apache Curator does, in one process against one server, written down: the framework, service
 * discovery and, in {@link CuratorRecipes}, {@link CuratorQueues} and {@link CuratorCaches}, every recipe.
 *
 * <p>Argument: connectString of a server with no nodes of its own, a tick of at most half a second, and TTL nodes.
 * Prints a transcript that is the same for servers that behave the same, and at last DONE.
 */
public final class CuratorSession {
    private final String server;
    private final CuratorFramework client;
    private final CuratorFramework other;

    private CuratorSession(String server) throws Exception {
        this.server = server;
        client = Transcript.connect(server);
        other = Transcript.connect(server);
    }

    public static void main(String[] args) throws Exception {
        CuratorSession session = new CuratorSession(args[0]);
        session.operations();
        session.access();
        session.transactions();
        session.watches();
        session.timeToLive();
        session.discovery();
        new CuratorRecipes(session.client, session.other).run();
        new CuratorQueues(session.client, session.other).run();
        new CuratorCaches(session.client, session.other).run();
        session.reconnects();
        Transcript.chapter("at the end");
        session.other.close();
        // Containers go when they are empty, one level at a time.
        Transcript.until(() -> session.client.getChildren().forPath("/").equals(List.of("zookeeper")));
        Transcript.say(session.client.getChildren().forPath("/"));
        session.client.close();
        Transcript.say("DONE");
        System.exit(0);
    }

    private void operations() throws Exception {
        Transcript.chapter("operations");
        Transcript.attempt("create", () -> client.create().forPath("/ops", Transcript.bytes("one")));
        Transcript.attempt("again", () -> client.create().forPath("/ops"));
        Transcript.attempt("or set", () -> client.create().orSetData().forPath("/ops", Transcript.bytes("two")));
        Transcript.attempt("idempotent", () -> client.create().idempotent().forPath("/ops", Transcript.bytes("two")));
        Transcript.attempt("not the same", () -> client.create().idempotent().forPath("/ops", Transcript.bytes("x")));
        Stat stat = new Stat();
        Transcript.attempt("with stat", () -> client.create().storingStatIn(stat).forPath("/ops/s", new byte[3]));
        Transcript.say(stat);
        Transcript.attempt("with parents", () -> client.create().creatingParentsIfNeeded().forPath("/ops/a/b/c"));
        Transcript.attempt("below nothing", () -> client.create().forPath("/none/x"));
        for (CreateMode mode : CreateMode.values()) {
            if (!mode.isTTL() && !mode.isContainer()) {
                Transcript.attempt(mode.name(), () -> client.create().withMode(mode).forPath("/ops/a/" + mode));
            }
        }
        Transcript.attempt("protected", () -> client.create().withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/ops/p-"));
        Transcript.attempt("stat", () -> client.checkExists().forPath("/ops"));
        Transcript.attempt("no stat", () -> client.checkExists().forPath("/none"));
        Transcript.attempt("set", () -> client.setData().withVersion(1).forPath("/ops", Transcript.bytes("three")));
        Transcript.attempt("wrong version", () -> client.setData().withVersion(1).forPath("/ops"));
        Transcript.attempt("idempotent set",
                () -> client.setData().idempotent().withVersion(1).forPath("/ops", Transcript.bytes("three")));
        Transcript.attempt("null", () -> client.setData().forPath("/ops/s", null));
        Transcript.attempt("null", () -> client.getData().forPath("/ops/s"));
        byte[] large = new byte[200_000];
        Arrays.fill(large, (byte) 'x');
        client.create().compressed().forPath("/ops/gzip", large);
        Transcript.say("compressed", client.getData().decompressed().forPath("/ops/gzip").length,
                client.checkExists().forPath("/ops/gzip"));
        Transcript.attempt("children", () -> sorted(client.getChildren().storingStatIn(stat).forPath("/ops/a")));
        Transcript.say(stat);
        Transcript.attempt("delete, not empty", () -> client.delete().forPath("/ops/a"));
        Transcript.attempt("delete, wrong version", () -> client.delete().withVersion(3).forPath("/ops/s"));
        Transcript.attempt("delete", () -> client.delete().guaranteed().forPath("/ops/s"));
        Transcript.attempt("quietly", () -> client.delete().quietly().forPath("/ops/s"));
        ZooKeeper zookeeper = client.getZookeeperClient().getZooKeeper();
        Transcript.attempt("all children", () -> zookeeper.getAllChildrenNumber("/ops"));
        Transcript.attempt("ephemerals", () -> sorted(zookeeper.getEphemerals("/ops/a")));
        Transcript.attempt("identities", () -> zookeeper.whoAmI().size());
        Transcript.attempt("configuration", () -> client.getConfig().forEnsemble());
        Transcript.attempt("reconfiguration",
                () -> client.reconfig().joining("server.9=localhost:1:2;3").forEnsemble());
        Transcript.attempt("namespace", () -> client.usingNamespace("ns").create().forPath("/in"));
        Transcript.attempt("namespace", () -> client.getChildren().forPath("/ns"));
        BlockingQueue<CuratorEvent> events = new LinkedBlockingQueue<>();
        client.getData().inBackground((from, event) -> events.add(event)).forPath("/ops");
        client.getData().inBackground((from, event) -> events.add(event)).forPath("/none");
        client.sync().inBackground((from, event) -> events.add(event)).forPath("/ops");
        for (int count = 0; count < 3; count++) {
            CuratorEvent event = events.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS);
            Transcript.say(event.getType(), event.getResultCode(), event.getPath(), event.getData());
        }
        for (int count = 0; count < 500; count++) {
            client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                    .inBackground((from, event) -> events.add(event)).forPath("/ops/a/b/n-");
        }
        List<String> names = new ArrayList<>();
        while (names.size() < 500) {
            names.add(events.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS).getName());
        }
        Transcript.say("in order", names.equals(sorted(names)), client.checkExists().forPath("/ops/a/b"));
        client.delete().deletingChildrenIfNeeded().forPath("/ops/a/b");
        Transcript.tree(client, "/ops");
        client.delete().deletingChildrenIfNeeded().forPath("/ops");
        client.delete().deletingChildrenIfNeeded().forPath("/ns");
    }

    private void access() throws Exception {
        Transcript.chapter("access");
        try (CuratorFramework alice = Transcript.connect(CuratorFrameworkFactory.builder().connectString(server)
                .authorization("digest", Transcript.bytes("alice:secret")))) {
            Transcript.attempt("hers", () -> alice.create().withACL(Ids.CREATOR_ALL_ACL).forPath("/hers"));
            Transcript.attempt("list", () -> alice.getACL().forPath("/hers"));
            Transcript.attempt("stranger", () -> client.getData().forPath("/hers"));
            Transcript.attempt("stranger", () -> client.getACL().forPath("/hers"));
            Transcript.attempt("stranger", () -> client.create().forPath("/hers/x"));
            List<ACL> list = new ArrayList<>(Ids.CREATOR_ALL_ACL);
            list.add(new ACL(Perms.READ, new Id("world", "anyone")));
            Transcript.attempt("change", () -> alice.setACL().withVersion(0).withACL(list).forPath("/hers"));
            Transcript.attempt("wrong version", () -> alice.setACL().withVersion(0).withACL(list).forPath("/hers"));
            Transcript.attempt("stranger", () -> client.getData().forPath("/hers"));
            Transcript.attempt("stranger sees no hash", () -> client.getACL().forPath("/hers"));
            Transcript.attempt("stranger", () -> client.setData().forPath("/hers"));
            Transcript.attempt("bad list", () -> client.create()
                    .withACL(List.of(new ACL(Perms.ALL, new Id("digest", "nonsense")))).forPath("/bad"));
            Transcript.attempt("whose", () -> client.create().withACL(Ids.CREATOR_ALL_ACL).forPath("/bad"));
            Transcript.attempt("identities", () -> {
                List<String> names = new ArrayList<>();
                alice.getZookeeperClient().getZooKeeper().whoAmI()
                        .forEach(who -> names.add(who.getAuthScheme() + " " + who.getUser()));
                return sorted(names);
            });
            alice.delete().forPath("/hers");
        }
    }

    private void transactions() throws Exception {
        Transcript.chapter("transactions");
        commit("all kinds",
                client.transactionOp().create().forPath("/t", Transcript.bytes("1")),
                client.transactionOp().create().withMode(CreateMode.EPHEMERAL).forPath("/t/e"),
                client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/t/s-"),
                client.transactionOp().create().withMode(CreateMode.CONTAINER).forPath("/t/c"),
                client.transactionOp().create().withTtl(600_000).withMode(CreateMode.PERSISTENT_WITH_TTL)
                        .forPath("/t/ttl"),
                client.transactionOp().check().withVersion(0).forPath("/t"),
                client.transactionOp().setData().withVersion(0).forPath("/t", Transcript.bytes("2")),
                client.transactionOp().create().compressed().forPath("/t/z", Transcript.bytes("zip")),
                client.transactionOp().delete().forPath("/t/e"));
        Transcript.tree(client, "/t");
        oldTransactions();
        commit("first fails", client.transactionOp().check().withVersion(9).forPath("/t"),
                client.transactionOp().create().forPath("/t/x"));
        commit("last fails", client.transactionOp().create().forPath("/t/x"),
                client.transactionOp().setData().forPath("/t"), client.transactionOp().delete().forPath("/none"));
        Transcript.tree(client, "/t");
        client.delete().deletingChildrenIfNeeded().forPath("/t");
    }

    @SuppressWarnings("deprecation")
    private void oldTransactions() throws Exception {
        Transcript.attempt("in the old way", () -> client.inTransaction().create().forPath("/t/old").and()
                .delete().forPath("/t/old").and().commit().size());
    }

    private void commit(String label, CuratorOp... operations) {
        try {
            for (CuratorTransactionResult result : client.transaction().forOperations(operations)) {
                Transcript.say(label, result.getType(), result.getForPath(), result.getResultPath(),
                        result.getResultStat(), result.getError());
            }
        } catch (KeeperException error) {
            Transcript.say(label, error.code(), error.getResults().size());
            error.getResults().forEach(result -> Transcript.say("  ", result.getType(),
                    result instanceof org.apache.zookeeper.OpResult.ErrorResult
                            ? ((org.apache.zookeeper.OpResult.ErrorResult) result).getErr() : "none"));
        } catch (Exception error) {
            Transcript.say(label, error);
        }
    }

    private void watches() throws Exception {
        Transcript.chapter("watches");
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        Watcher one = watcher(seen, "one-shot");
        client.checkExists().usingWatcher(one).forPath("/w");
        other.create().forPath("/w");
        happened(seen);
        client.getData().usingWatcher(one).forPath("/w");
        client.getChildren().usingWatcher(one).forPath("/w");
        other.setData().forPath("/w");
        other.setData().forPath("/w");
        other.create().forPath("/w/a");
        happened(seen);
        Watcher persistent = watcher(seen, "persistent");
        Watcher recursive = watcher(seen, "recursive");
        client.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher(persistent).forPath("/w");
        client.watchers().add().usingWatcher(recursive).forPath("/w/a");
        other.setData().forPath("/w");
        other.create().forPath("/w/a/b");
        other.create().forPath("/w/a/b/c");
        other.setData().forPath("/w/a/b/c");
        other.create().forPath("/w/b");
        other.delete().forPath("/w/a/b/c");
        happened(seen);
        client.getChildren().usingWatcher(one).forPath("/w");
        client.getData().usingWatcher(one).forPath("/w");
        Transcript.attempt("remove", () -> client.watchers().remove(persistent).forPath("/w"));
        happened(seen);
        other.setData().forPath("/w");
        happened(seen);
        Transcript.attempt("remove all", () -> client.watchers().removeAll().forPath("/w"));
        happened(seen);
        other.create().forPath("/w/c");
        happened(seen);
        Transcript.attempt("remove none", () -> client.watchers().removeAll().forPath("/w"));
        other.delete().deletingChildrenIfNeeded().forPath("/w");
        happened(seen);
        Transcript.attempt("remove", () -> client.watchers().remove(recursive).forPath("/w/a"));
        happened(seen);
    }

    private static Watcher watcher(List<String> seen, String label) {
        return event -> seen.add(label + " " + event.getType() + " " + event.getState() + " " + event.getPath());
    }

    /** The watchers of one event are called in no order. */
    private void happened(List<String> seen) throws Exception {
        Transcript.settled(client);
        List<String> lines = new ArrayList<>(seen);
        seen.clear();
        String label = "happened";
        for (int from = 0; from < lines.size(); ) {
            int to = from;
            while (to < lines.size() && event(lines.get(to)).equals(event(lines.get(from)))) {
                to++;
            }
            sorted(lines.subList(from, to)).forEach(line -> Transcript.say("  ", line));
            from = to;
        }
        Transcript.say(label, lines.size());
    }

    private static String event(String line) {
        return line.substring(line.indexOf(' '));
    }

    private void timeToLive() throws Exception {
        Transcript.chapter("containers and time to live");
        client.create().withMode(CreateMode.CONTAINER).forPath("/container");
        client.create().forPath("/container/a");
        client.delete().forPath("/container/a");
        Transcript.until(() -> client.checkExists().forPath("/container") == null);
        client.create().withTtl(100).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ttl");
        Transcript.until(() -> client.checkExists().forPath("/ttl") == null);
        Transcript.attempt("long", () -> client.create().withTtl(600_000)
                .withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL).forPath("/ttl-"));
        Transcript.attempt("too long", () -> client.create().withTtl(1L << 50)
                .withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ttl"));
        String path = "/" + client.getChildren().forPath("/").stream()
                .filter(name -> name.startsWith("ttl")).findFirst().get();
        Transcript.say(client.checkExists().forPath(path));
        client.delete().forPath(path);
    }

    private void discovery() throws Exception {
        Transcript.chapter("service discovery");
        ServiceInstance<String> here = instance("one", 1000, "payload");
        try (ServiceDiscovery<String> mine = ServiceDiscoveryBuilder.builder(String.class).client(client)
                        .basePath("/services").thisInstance(here).watchInstances(true).build();
                ServiceDiscovery<String> theirs = ServiceDiscoveryBuilder.builder(String.class).client(other)
                        .basePath("/services").build()) {
            mine.start();
            theirs.start();
            Transcript.tree(client, "/services");
            ServiceCache<String> cache = theirs.serviceCacheBuilder().name("orders").build();
            cache.start();
            ServiceProvider<String> provider = theirs.serviceProviderBuilder().serviceName("orders").build();
            provider.start();
            Transcript.say(theirs.queryForNames(), theirs.queryForInstances("orders").size(),
                    provider.getInstance().getPayload(), theirs.queryForInstance("orders", "none"));
            ServiceInstance<String> second = instance("two", 1001, "more");
            theirs.registerService(second);
            Transcript.until(() -> cache.getInstances().size() == 2);
            mine.updateService(instance("one", 1002, "changed"));
            Transcript.until(() -> cache.getInstances().stream().anyMatch(each -> each.getPort() == 1002));
            Transcript.tree(client, "/services");
            theirs.unregisterService(second);
            Transcript.until(() -> cache.getInstances().size() == 1);
            Transcript.say(cache.getInstances().get(0).getPayload());
            provider.close();
            cache.close();
        }
        Transcript.until(() -> client.checkExists().forPath("/services") == null);
    }

    private static ServiceInstance<String> instance(String id, int port, String payload) throws Exception {
        return ServiceInstance.<String>builder().name("orders").id(id).address("10.0.0.1").port(port)
                .payload(payload).registrationTimeUTC(0).build();
    }

    private void reconnects() throws Exception {
        Transcript.chapter("reconnects");
        Transcript.Relay relay = new Transcript.Relay(server);
        List<ConnectionState> states = Collections.synchronizedList(new ArrayList<>());
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CuratorFramework away = Transcript.connect(
                CuratorFrameworkFactory.builder().connectString(relay.connectString()).sessionTimeoutMs(4_000));
        away.getConnectionStateListenable().addListener((from, state) -> {
            // The first one may come before the listener or after.
            if (state != ConnectionState.CONNECTED) {
                states.add(state);
            }
        });
        long session = away.getZookeeperClient().getZooKeeper().getSessionId();
        for (String path : List.of("/r", "/r/data", "/r/gone", "/r/children", "/r/tree", "/r/quiet")) {
            client.create().forPath(path);
        }
        away.create().withMode(CreateMode.EPHEMERAL).forPath("/r/mine");
        Watcher watcher = event -> {
            if (event.getType() != Watcher.Event.EventType.None) {
                seen.add(event.getType() + " " + event.getPath());
            }
        };
        away.getData().usingWatcher(watcher).forPath("/r/data");
        away.getData().usingWatcher(watcher).forPath("/r/gone");
        away.getData().usingWatcher(watcher).forPath("/r/quiet");
        away.checkExists().usingWatcher(watcher).forPath("/r/new");
        away.checkExists().usingWatcher(watcher).forPath("/r/later");
        away.getChildren().usingWatcher(watcher).forPath("/r/children");
        away.watchers().add().usingWatcher(watcher).forPath("/r/tree");
        relay.cut();
        Transcript.until(() -> states.size() == 1);
        client.setData().forPath("/r/data");
        client.delete().forPath("/r/gone");
        client.create().forPath("/r/new");
        client.create().forPath("/r/children/a");
        client.create().forPath("/r/tree/missed");
        relay.mend();
        Transcript.until(() -> states.size() == 2);
        Transcript.until(() -> seen.size() == 4);
        Transcript.settled(away);
        Transcript.say(states, session == away.getZookeeperClient().getZooKeeper().getSessionId());
        Transcript.say(sorted(seen));
        seen.clear();
        client.setData().forPath("/r/quiet");
        client.create().forPath("/r/later");
        client.create().forPath("/r/tree/seen");
        client.setData().forPath("/r/tree/seen");
        Transcript.settled(away);
        Transcript.say(seen);
        Transcript.say(client.checkExists().forPath("/r/mine"));

        Transcript.say("closed by another");
        states.clear();
        ZooKeeper before = away.getZookeeperClient().getZooKeeper();
        relay.cut();
        Transcript.until(() -> states.size() == 1);
        ZooKeeper thief = new ZooKeeper(server, 4_000, event -> {}, before.getSessionId(), before.getSessionPasswd());
        Transcript.until(() -> thief.getState().isConnected());
        Transcript.attempt("taken over", () -> thief.exists("/r/mine", false).getEphemeralOwner() == session);
        thief.close();
        Transcript.say(client.checkExists().forPath("/r/mine"));
        relay.mend();
        Transcript.until(() -> states.contains(ConnectionState.RECONNECTED));
        Transcript.say(states, session == away.getZookeeperClient().getZooKeeper().getSessionId());

        Transcript.say("expired");
        states.clear();
        away.create().withMode(CreateMode.EPHEMERAL).forPath("/r/mine");
        relay.cut();
        Transcript.until(() -> client.checkExists().forPath("/r/mine") == null);
        relay.mend();
        Transcript.until(() -> states.contains(ConnectionState.RECONNECTED));
        Transcript.say(states);
        away.close();
        client.delete().deletingChildrenIfNeeded().forPath("/r");
    }

    private static List<String> sorted(List<String> names) {
        List<String> copy = new ArrayList<>(names);
        sort(copy);
        return copy;
    }
}
