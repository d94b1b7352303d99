import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import org.apache.curator.test.TestingCluster;
import org.apache.curator.test.TestingServer;

/**
 * Starts Curator's servers for tests, for starts.py: a line `1` on standard input starts a server, a line `3` an ensemble of
 * three. The answer is the number of nanoseconds until every server has granted a session.
 */
public final class Starts {
    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            long called = System.nanoTime();
            if (line.equals("1")) {
                try (TestingServer server = new TestingServer()) {
                    answered(server.getPort());
                    say(called);
                }
            } else {
                try (TestingCluster cluster = new TestingCluster(3)) {
                    cluster.start();
                    for (var server : cluster.getServers()) {
                        answered(server.getInstanceSpecs().iterator().next().getPort());
                    }
                    say(called);
                }
            }
        }
        // A closed ensemble leaves threads behind.
        System.exit(0);
    }

    private static void say(long called) {
        System.out.println(System.nanoTime() - called);
        System.out.flush();
    }

    /** Waits until a server grants a session. */
    private static void answered(int port) throws InterruptedException {
        // A request for a new session of 10 s, with its length in front.
        byte[] handshake = ByteBuffer.allocate(49).putInt(45).putInt(0).putLong(0).putInt(10_000).putLong(0).putInt(16).array();
        while (true) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress("127.0.0.1", port));
                socket.getOutputStream().write(handshake);
                byte[] answer = socket.getInputStream().readNBytes(12);
                // A server that is not ready grants no timeout.
                if (answer.length == 12 && ByteBuffer.wrap(answer).getInt(8) > 0) {
                    return;
                }
            } catch (IOException notYet) {
                // It is not there yet.
            }
            Thread.sleep(1);
        }
    }
}
