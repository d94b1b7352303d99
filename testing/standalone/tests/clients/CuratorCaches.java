import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheBridge;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentEphemeralNode;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.zookeeper.CreateMode;

/** The recipes of Apache Curator that watch or keep nodes: caches, persistent nodes and watchers, group members. */
@SuppressWarnings("deprecation")
final class CuratorCaches {
    private final CuratorFramework client;
    private final CuratorFramework other;
    private final BlockingQueue<String> events = new LinkedBlockingQueue<>();

    CuratorCaches(CuratorFramework client, CuratorFramework other) {
        this.client = client;
        this.other = other;
    }

    void run() throws Exception {
        nodeCache();
        pathChildrenCache();
        treeCache();
        curatorCache();
        persistentNodes();
        groupMembers();
        persistentWatcher();
    }

    /** The next events, as many as are due; in alphabetical order, because the reads behind them race. */
    private void heard(int count) throws Exception {
        List<String> next = new ArrayList<>();
        while (next.size() < count) {
            String event = events.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS);
            if (event == null) {
                throw new IllegalStateException("no event after " + next);
            }
            next.add(event);
        }
        next.sort(null);
        next.forEach(event -> Transcript.say("  ", event));
    }

    private static String text(ChildData data) {
        return data == null
                ? "none"
                : data.getPath() + " " + Transcript.show(data.getData()) + " v" + data.getStat().getVersion();
    }

    /** A few nodes come, change and go below a path. */
    private void change(String path, int... due) throws Exception {
        Transcript.Action[] actions = {
            () -> other.create().orSetData().forPath(path, Transcript.bytes("0")),
            () -> other.create().forPath(path + "/a", Transcript.bytes("1")),
            () -> other.setData().forPath(path + "/a", Transcript.bytes("2")),
            () -> other.create().forPath(path + "/a/b", Transcript.bytes("3")),
            () -> other.delete().forPath(path + "/a/b"),
            () -> other.delete().forPath(path + "/a"),
        };
        for (int step = 0; step < actions.length; step++) {
            actions[step].run();
            heard(due[step]);
        }
    }

    private void nodeCache() throws Exception {
        Transcript.chapter("node cache");
        try (NodeCache cache = new NodeCache(client, "/node")) {
            cache.getListenable().addListener(() -> events.add(text(cache.getCurrentData())));
            cache.start(true);
            other.create().forPath("/node", Transcript.bytes("0"));
            heard(1);
            other.setData().forPath("/node", Transcript.bytes("x"));
            heard(1);
            other.delete().forPath("/node");
            heard(1);
        }
    }

    private void pathChildrenCache() throws Exception {
        Transcript.chapter("path children cache");
        client.create().forPath("/children");
        client.create().forPath("/children/z", Transcript.bytes("before"));
        try (PathChildrenCache cache = new PathChildrenCache(client, "/children", true)) {
            cache.getListenable()
                    .addListener((from, event) -> events.add(event.getType() + " " + text(event.getData())));
            cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
            heard(2);
            change("/children", 0, 1, 1, 0, 0, 1);
            Transcript.say(text(cache.getCurrentData("/children/z")), cache.getCurrentData().size());
        }
        client.delete().deletingChildrenIfNeeded().forPath("/children");
    }

    private void treeCache() throws Exception {
        Transcript.chapter("tree cache");
        try (TreeCache cache = TreeCache.newBuilder(client, "/tree").build()) {
            cache.getListenable()
                    .addListener((from, event) -> events.add(event.getType() + " " + text(event.getData())));
            cache.start();
            heard(1);
            change("/tree", 1, 1, 1, 1, 1, 1);
            Transcript.say(text(cache.getCurrentData("/tree")), cache.getCurrentChildren("/tree"));
        }
        client.delete().deletingChildrenIfNeeded().forPath("/tree");
    }

    private void curatorCache() throws Exception {
        Transcript.chapter("curator cache");
        client.create().forPath("/cache");
        client.create().forPath("/cache/z");
        for (CuratorCache.Options[] options : List.of(
                new CuratorCache.Options[0], new CuratorCache.Options[] {CuratorCache.Options.SINGLE_NODE_CACHE})) {
            boolean single = options.length == 1;
            try (CuratorCache cache = CuratorCache.build(client, "/cache", options)) {
                cache.listenable().addListener(CuratorCacheListener.builder()
                        .forAll((type, before, after) -> events.add(type + " " + text(before) + " -> " + text(after)))
                        .forInitialized(() -> events.add("initialized"))
                        .build());
                cache.start();
                heard(single ? 2 : 3);
                int every = single ? 0 : 1;
                change("/cache", 1, every, every, every, every, every);
                Transcript.say(cache.size(), text(cache.get("/cache").orElse(null)));
                if (!single) {
                    other.delete().forPath("/cache/z");
                    heard(1);
                }
                other.delete().forPath("/cache");
                heard(1);
            }
            client.create().forPath("/cache");
        }
        client.delete().forPath("/cache");
        // It is a TreeCache for servers without persistent watches; for this one it is not.
        client.create().forPath("/bridge");
        try (CuratorCacheBridge bridge = CuratorCache.bridgeBuilder(client, "/bridge").build()) {
            bridge.listenable().addListener((type, before, after) -> events.add(type + " " + text(after)));
            bridge.start();
            heard(1);
            Transcript.say(bridge.isCuratorCache(), bridge.size());
        }
        client.delete().forPath("/bridge");
    }

    private void persistentNodes() throws Exception {
        Transcript.chapter("persistent nodes");
        try (PersistentNode node =
                new PersistentNode(client, CreateMode.EPHEMERAL, false, "/kept", Transcript.bytes("1"))) {
            node.start();
            Transcript.say(node.waitForInitialCreate(Transcript.PATIENCE, TimeUnit.MILLISECONDS), node.getActualPath());
            long first = client.checkExists().forPath("/kept").getCzxid();
            other.delete().forPath("/kept");
            Transcript.until(() -> {
                var stat = client.checkExists().forPath("/kept");
                return stat != null && stat.getCzxid() != first;
            });
            node.setData(Transcript.bytes("2"));
            Transcript.tree(client, "/kept");
        }
        Transcript.say(client.checkExists().forPath("/kept"));
        PersistentEphemeralNode old = new PersistentEphemeralNode(
                client, PersistentEphemeralNode.Mode.PROTECTED_EPHEMERAL, "/old", Transcript.bytes("o"));
        old.start();
        Transcript.say(old.waitForInitialCreate(Transcript.PATIENCE, TimeUnit.MILLISECONDS), old.getActualPath());
        old.close();
        client.create().forPath("/sequence");
        try (PersistentNode node = new PersistentNode(
                client, CreateMode.EPHEMERAL_SEQUENTIAL, true, "/sequence/n-", Transcript.bytes("s"))) {
            node.start();
            Transcript.say(node.waitForInitialCreate(Transcript.PATIENCE, TimeUnit.MILLISECONDS), node.getActualPath());
            Transcript.tree(client, "/sequence");
        }
        client.delete().deletingChildrenIfNeeded().forPath("/sequence");
        try (PersistentTtlNode node = new PersistentTtlNode(client, "/kept-ttl", 400, Transcript.bytes("t"))) {
            node.start();
            Transcript.say(node.waitForInitialCreate(Transcript.PATIENCE, TimeUnit.MILLISECONDS));
            Transcript.until(() -> {
                var touched = client.checkExists().forPath("/kept-ttl/touch");
                return touched != null && touched.getVersion() > 2;
            });
            Transcript.say(client.getData().forPath("/kept-ttl"));
        }
        Transcript.until(() -> client.checkExists().forPath("/kept-ttl") == null);
    }

    private void groupMembers() throws Exception {
        Transcript.chapter("group members");
        client.create().forPath("/group");
        try (GroupMember one = new GroupMember(client, "/group", "one", Transcript.bytes("1"));
                GroupMember two = new GroupMember(other, "/group", "two", Transcript.bytes("2"))) {
            one.start();
            two.start();
            Transcript.until(() -> one.getCurrentMembers().size() == 2);
            Transcript.say(one.getCurrentMembers());
            Transcript.tree(client, "/group");
            Transcript.until(() -> {
                try {
                    two.setThisData(Transcript.bytes("changed"));
                    return true;
                } catch (IllegalStateException early) {
                    // Others have seen the node before Curator has seen the answer to its creation.
                    return false;
                }
            });
            Transcript.until(() -> Transcript.show(one.getCurrentMembers()).contains("changed"));
            two.close();
            Transcript.until(() -> one.getCurrentMembers().size() == 1);
        }
        client.delete().deletingChildrenIfNeeded().forPath("/group");
    }

    private void persistentWatcher() throws Exception {
        Transcript.chapter("persistent watcher");
        client.create().forPath("/watched");
        try (PersistentWatcher watcher = new PersistentWatcher(client, "/watched", true)) {
            watcher.getListenable().addListener(event -> events.add(event.getType() + " " + event.getPath()));
            CountDownLatch added = new CountDownLatch(1);
            watcher.getResetListenable().addListener(added::countDown);
            watcher.start();
            Transcript.say(added.await(Transcript.PATIENCE, TimeUnit.MILLISECONDS));
            change("/watched", 1, 1, 1, 1, 1, 1);
        }
        Transcript.settled(client);
        other.setData().forPath("/watched");
        Transcript.settled(client);
        Transcript.say(events);
        client.delete().forPath("/watched");
    }
}
