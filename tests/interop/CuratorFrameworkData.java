import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.ACLProvider;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * Writes nodes with Apache Curator, and reads nodes that somebody else has written: compressed and not, with default
 * data, in a namespace, with the ACLs of an ACLProvider, with an identity.
 *
 * <p>Arguments: connectString namespace "write" | "read". Below the namespace, "write" makes
 *
 * <ul>
 *   <li>/gzip/text, /gzip/empty, /gzip/large: compressed data;
 *   <li>/default: whatever the default data are (and prints them: "DEFAULT data");
 *   <li>/acl/node: with an ACL of the provider, and parents with those of theirs;
 *   <li>/mine: for the identity "user:secret" alone.
 * </ul>
 *
 * "read" expects the same nodes and prints one line for each: "GZIP name length hash", "DATA path text",
 * "ACL path list". Prints "DONE" at last.
 */
public final class CuratorFrameworkData {
    /** Everything below /acl is read-only for others, and the rest open. */
    private static final class Provider implements ACLProvider {
        @Override
        public List<ACL> getDefaultAcl() {
            return ZooDefs.Ids.OPEN_ACL_UNSAFE;
        }

        @Override
        public List<ACL> getAclForPath(String path) {
            return path.contains("/acl") ? ZooDefs.Ids.READ_ACL_UNSAFE : ZooDefs.Ids.OPEN_ACL_UNSAFE;
        }
    }

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .namespace(args[1])
                .retryPolicy(new RetryOneTime(100))
                .aclProvider(new Provider())
                .authorization("digest", "user:secret".getBytes(StandardCharsets.UTF_8))
                .build()) {
            client.start();
            if (args[2].equals("write")) {
                write(client);
            } else {
                read(client);
            }
        }
        System.out.println("DONE");
    }

    private static byte[] large() {
        byte[] large = new byte[200_000];
        for (int i = 0; i < large.length; i++) {
            large[i] = (byte) (i * i % 251);
        }
        return large;
    }

    private static void write(CuratorFramework client) throws Exception {
        client.create().compressed().creatingParentsIfNeeded().forPath("/gzip/text", bytes("gr\u00fcn"));
        client.create().compressed().forPath("/gzip/empty", new byte[0]);
        client.create().compressed().forPath("/gzip/large", large());
        client.create().forPath("/default");
        System.out.println("DEFAULT " + text(client.getData().forPath("/default")));
        client.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/mine", bytes("mine"));
        // Only one level: the provider's ACL lets nobody create below.
        client.create().forPath("/acl", bytes("acl"));
    }

    private static void read(CuratorFramework client) throws Exception {
        for (String name : new String[] {"text", "empty", "large"}) {
            byte[] data = client.getData().decompressed().forPath("/gzip/" + name);
            int hash = java.util.Arrays.hashCode(data);
            System.out.println("GZIP " + name + " " + data.length + " " + hash);
        }
        System.out.println("DATA /default " + text(client.getData().forPath("/default")));
        System.out.println("DATA /mine " + text(client.getData().forPath("/mine")));
        for (String path : new String[] {"/acl", "/mine", "/gzip"}) {
            System.out.println("ACL " + path + " " + client.getACL().forPath(path).toString().trim());
        }
        Stat stat = client.checkExists().forPath("/acl");
        System.out.println("DATA /acl " + stat.getDataLength());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
