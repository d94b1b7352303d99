package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.ConnectException;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The server ends with the virtual machine. */
@Timeout(120)
class LifetimeTest {
    /** Starts a server, prints its port, and ends as its input says. */
    static final class Owner {
        private Owner() {}

        public static void main(String[] arguments) throws IOException {
            ZkTestServer server = new ZkTestServer();
            System.out.println(server.getPort());
            if (System.in.read() == 'h') {
                Runtime.getRuntime().halt(3);
            }
            // The virtual machine ends without a call of `close`.
            server.info();
        }
    }

    private interface End {
        void of(Process owner) throws Exception;
    }

    private static void serverEnds(End end) throws Exception {
        Process owner = Jvm.of(Owner.class).start();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(owner.getInputStream(), StandardCharsets.UTF_8))) {
            int port = Integer.parseInt(lines.readLine());
            try (Socket socket = new Socket("127.0.0.1", port)) {
                end.of(owner);
                awaitEnd(socket);
            }
            // The port can accept a little longer than the connection lasts.
            while (accepts(port)) {
                Thread.onSpinWait();
            }
        } finally {
            owner.destroyForcibly();
        }
    }

    private static boolean accepts(int port) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            awaitEnd(socket);
            return true;
        } catch (ConnectException error) {
            return false;
        }
    }

    /** Waits until the process at the other end of the connection has ended. */
    private static void awaitEnd(Socket socket) throws IOException {
        try {
            assertEquals(-1, socket.getInputStream().read());
        } catch (SocketException error) {
            // A process that is killed resets its connections.
        }
    }

    private static void say(Process owner, char word) throws IOException {
        owner.getOutputStream().write(word);
        owner.getOutputStream().flush();
    }

    @Test
    void whenItReturnsFromMain() throws Exception {
        serverEnds(owner -> {
            say(owner, 'r');
            assertEquals(0, owner.waitFor());
        });
    }

    @Test
    void whenItHalts() throws Exception {
        serverEnds(owner -> {
            say(owner, 'h');
            assertEquals(3, owner.waitFor());
        });
    }

    @Test
    void whenItIsKilled() throws Exception {
        serverEnds(owner -> {
            owner.destroyForcibly(); // SIGKILL
            assertEquals(137, owner.waitFor());
        });
    }
}
