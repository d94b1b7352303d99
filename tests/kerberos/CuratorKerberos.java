import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.ZooDefs;

/**
 * A client of Apache Curator that authenticates as its JAAS file says. Argument: connectString.
 *
 * <p>Answers each line of standard input with one line of standard output:
 *
 * <ul>
 *   <li>"create PATH DATA": creates a node for its own principal alone, and answers "CREATED";
 *   <li>"get PATH": answers "DATA text";
 *   <li>"acl PATH": answers "ACL scheme:id";
 *   <li>"acquire PATH": tries to get a lock for a tenth of a second, and answers "true" or "false";
 *   <li>"release": answers "RELEASED".
 * </ul>
 *
 * An exception is answered with "ERROR" and its class.
 */
public final class CuratorKerberos {
    private static InterProcessMutex held;

    private CuratorKerberos() {}

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(10_000)
                .connectionTimeoutMs(10_000)
                .retryPolicy(new ExponentialBackoffRetry(50, 8, 1000))
                .build()) {
            client.start();
            Scanner input = new Scanner(System.in, StandardCharsets.UTF_8);
            while (input.hasNextLine()) {
                System.out.println(answer(client, input.nextLine().split(" ")));
                System.out.flush();
            }
        }
    }

    private static String answer(CuratorFramework client, String[] words) {
        try {
            switch (words[0]) {
                case "create":
                    client.create()
                            .withACL(ZooDefs.Ids.CREATOR_ALL_ACL)
                            .forPath(words[1], words[2].getBytes(StandardCharsets.UTF_8));
                    return "CREATED";
                case "get":
                    return "DATA " + new String(client.getData().forPath(words[1]), StandardCharsets.UTF_8);
                case "acl":
                    var id = client.getACL().forPath(words[1]).get(0).getId();
                    return "ACL " + id.getScheme() + ":" + id.getId();
                case "acquire":
                    held = new InterProcessMutex(client, words[1]);
                    return String.valueOf(held.acquire(100, TimeUnit.MILLISECONDS));
                case "release":
                    held.release();
                    return "RELEASED";
                default:
                    return "UNKNOWN";
            }
        } catch (Exception e) {
            return "ERROR " + e.getClass().getSimpleName();
        }
    }
}
