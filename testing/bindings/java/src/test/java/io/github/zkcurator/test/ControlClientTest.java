package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client of the protocol, with a server that misbehaves. */
@Timeout(60)
class ControlClientTest {
    private static final String GREETING = "{\"id\":1,\"ok\":{\"version\":1}}\n";

    private final List<AutoCloseable> opened = new ArrayList<>();
    private final List<String> received = Collections.synchronizedList(new ArrayList<>());

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable resource : opened) {
            resource.close();
        }
    }

    /**
     * Returns a client of a server that answers each request after the greeting by a function, and closes
     * the connection if that returns null.
     */
    private ControlClient client(Duration timeout, UnaryOperator<String> answer) throws IOException {
        ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        opened.add(listener);
        Thread acceptor = new Thread(() -> {
            try {
                while (true) {
                    Socket socket = listener.accept();
                    opened.add(0, socket);
                    new Thread(() -> serve(socket, answer)).start();
                }
            } catch (IOException error) {
                // The test has ended.
            }
        });
        acceptor.start();
        ControlClient client = new ControlClient(
                new InetSocketAddress(listener.getInetAddress(), listener.getLocalPort()), "secret", timeout, () -> "");
        opened.add(0, client);
        return client;
    }

    private void serve(Socket socket, UnaryOperator<String> answer) {
        try (Socket closed = socket) {
            BufferedReader in =
                    new BufferedReader(new InputStreamReader(closed.getInputStream(), StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                received.add(line);
                String response = line.contains("\"hello\"") ? GREETING : answer.apply(line);
                if (response == null) {
                    return;
                }
                closed.getOutputStream().write(response.getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException error) {
            // The client has closed the connection.
        }
    }

    private ServerGoneException gone(UnaryOperator<String> answer) throws IOException {
        ControlClient client = client(Duration.ofSeconds(20), answer);
        return assertThrows(ServerGoneException.class, () -> client.call("stop"));
    }

    @Test
    void reusesTheConnection() throws IOException {
        ControlClient client = client(Duration.ofSeconds(20), line ->
                "{\"id\":" + line.replaceAll(".*\"id\":(\\d+).*", "$1") + ",\"ok\":{\"hits\":4,\"later\":[]}}\n");
        assertEquals(4, client.call("rule", "rule", "a", "absent", null).integer("hits"));
        assertEquals(4, client.call("rule", "rule", "b").integer("hits"));
        assertEquals(
                List.of(
                        "{\"id\":1,\"call\":\"hello\",\"version\":1,\"token\":\"secret\"}",
                        "{\"id\":2,\"call\":\"rule\",\"rule\":\"a\"}",
                        "{\"id\":3,\"call\":\"rule\",\"rule\":\"b\"}"),
                received);
    }

    @Test
    void errorsHaveTheirCode() throws IOException {
        for (ErrorCode code : ErrorCode.values()) {
            ControlClient client = client(Duration.ofSeconds(20), line ->
                    "{\"id\":2,\"error\":{\"code\":\"" + code.protocolName() + "\",\"message\":\"stop: a problem\"}}\n");
            ControlException error = assertThrows(ControlException.class, () -> client.call("stop"));
            assertEquals(code, error.getCode());
            assertEquals("stop: a problem", error.getMessage());
        }
        ControlClient newer = client(Duration.ofSeconds(20), line ->
                "{\"id\":null,\"error\":{\"code\":\"of_tomorrow\",\"message\":\"stop: a problem\"}}\n");
        ControlException error = assertThrows(ControlException.class, () -> newer.call("stop"));
        assertEquals(ErrorCode.UNKNOWN, error.getCode());
    }

    @Test
    void aConditionThatTimesOutHasItsOwnException() throws IOException {
        ControlClient client = client(Duration.ofSeconds(20), line ->
                "{\"id\":2,\"error\":{\"code\":\"timeout\",\"message\":\"until: no /a\"}}\n");
        assertThrows(ConditionTimeoutException.class, () -> client.call("until"));
    }

    @Test
    void malformedResponsesAreRefused() throws IOException {
        assertTrue(gone(line -> "{\n").getMessage().startsWith("stop: no response: the text ends"));
        assertTrue(gone(line -> "[]\n").getMessage().contains("has not an object"));
        assertTrue(gone(line -> "{\"id\":3,\"ok\":{}}\n").getMessage().contains("another request"));
        assertTrue(gone(line -> "{\"id\":\"2\",\"ok\":{}}\n").getMessage().contains("type Long in 'id'"));
        assertTrue(gone(line -> "{\"id\":2,\"ok\":7}\n").getMessage().contains("has not an object"));
        assertTrue(gone(line -> "{\"id\":2,\"error\":{\"code\":1}}\n").getMessage().contains("type String in 'code'"));
        assertTrue(gone(line -> "[".repeat(100_000) + "\n").getMessage().contains("more than 64 levels"));
        assertTrue(gone(line -> null).getMessage().contains("the connection has ended"));
    }

    @Test
    void fieldsOfAnotherTypeAreRefused() throws IOException {
        ControlClient client = client(Duration.ofSeconds(20), line ->
                "{\"id\":2,\"ok\":{\"zxid\":5,\"session\":\"1f\",\"version\":4294967296,"
                        + "\"data\":\"*\",\"paths\":[1]}}\n");
        Fields result = client.call("probe");
        assertThrows(ServerGoneException.class, () -> result.id("zxid"));
        assertThrows(ServerGoneException.class, () -> result.id("session"));
        assertThrows(ServerGoneException.class, () -> result.number("version"));
        assertThrows(ServerGoneException.class, () -> result.data("data"));
        assertThrows(ServerGoneException.class, () -> result.texts("paths"));
        ServerGoneException error = assertThrows(ServerGoneException.class, () -> result.text("absent"));
        assertEquals("probe: the response has not a value of type String in 'absent', but null", error.getMessage());
    }

    /** Calls, and waits for the response for 50 ms, with a client that waits for 20 s otherwise. */
    private static ServerGoneException givesUp(ControlClient client, String call) {
        Duration shorter = Duration.ofMillis(50).minusSeconds(20);
        return assertThrows(
                ServerGoneException.class, () -> client.call(call, Collections.emptyMap(), shorter));
    }

    @Test
    void aServerThatDoesNotAnswerIsGivenUp() throws IOException {
        ControlClient client = client(Duration.ofSeconds(20), line -> "{\"id\":2");
        assertEquals("stop: no response within 50 ms", givesUp(client, "stop").getMessage());
    }

    @Test
    void aConnectionIsNotReusedAfterATimeout() throws IOException {
        // The late response must not become that of the next request.
        ControlClient client = client(
                Duration.ofSeconds(20), line -> line.contains("first") ? "" : "{\"id\":2,\"ok\":{}}\n");
        givesUp(client, "first");
        client.call("second");
        assertEquals(2, received.stream().filter(line -> line.contains("hello")).count());
    }

    @Test
    void anInterruptEndsACall() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        ControlClient client = client(Duration.ofSeconds(50), line -> {
            asked.countDown();
            return "";
        });
        CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        Thread caller = new Thread(() -> {
            ServerGoneException error = assertThrows(ServerGoneException.class, () -> client.call("until"));
            assertEquals("until: the thread was interrupted", error.getMessage());
            interrupted.complete(Thread.currentThread().isInterrupted());
        });
        caller.setUncaughtExceptionHandler((thread, error) -> interrupted.completeExceptionally(error));
        caller.start();
        asked.await();
        caller.interrupt();
        assertTrue(interrupted.get(20, TimeUnit.SECONDS), "the flag stays");
    }

    @Test
    void closeEndsCallsOfOtherThreads() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        ControlClient client = client(Duration.ofSeconds(50), line -> {
            asked.countDown();
            return "";
        });
        CompletableFuture<Fields> call = CompletableFuture.supplyAsync(() -> client.call("until"));
        asked.await();
        client.close();
        CompletionException error = assertThrows(CompletionException.class, call::join);
        assertEquals("until: the server was closed", error.getCause().getMessage());
        error = new CompletionException(assertThrows(ServerGoneException.class, () -> client.call("stop")));
        assertEquals("stop: the server is closed", error.getCause().getMessage());
    }

    @Test
    void moreCallsThanConnectionsWait() throws Exception {
        int calls = 200;
        int connections = 8;
        // No call ends before all connections are in use, so that the others would need more.
        CountDownLatch full = new CountDownLatch(connections);
        ControlClient client = client(Duration.ofSeconds(50), line -> {
            full.countDown();
            try {
                full.await();
            } catch (InterruptedException error) {
                return null;
            }
            return "{\"id\":" + line.replaceAll(".*\"id\":(\\d+).*", "$1") + ",\"ok\":{}}\n";
        });
        List<CompletableFuture<Void>> all = new ArrayList<>();
        CountDownLatch together = new CountDownLatch(calls);
        for (int call = 0; call < calls; call++) {
            CompletableFuture<Void> done = new CompletableFuture<>();
            all.add(done);
            new Thread(() -> {
                try {
                    together.countDown();
                    together.await();
                    client.call("info");
                    done.complete(null);
                } catch (Throwable error) {
                    done.completeExceptionally(error);
                }
            }).start();
        }
        CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0])).get(50, TimeUnit.SECONDS);
        assertEquals(connections, received.stream().filter(line -> line.contains("hello")).count());
    }

    @Test
    void waitsLeaveRoomForTheCallThatEndsThem() throws Exception {
        int most = 40;
        CountDownLatch full = new CountDownLatch(most);
        CountDownLatch ended = new CountDownLatch(1);
        ControlClient client = client(Duration.ofSeconds(50), line -> {
            if (line.contains("\"stop\"")) {
                ended.countDown();
            } else if (line.contains("\"until\"")) {
                full.countDown();
                try {
                    ended.await();
                } catch (InterruptedException error) {
                    return null;
                }
            }
            return "{\"id\":" + line.replaceAll(".*\"id\":(\\d+).*", "$1") + ",\"ok\":{}}\n";
        });
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int wait = 0; wait < 2 * most; wait++) {
            CompletableFuture<Void> done = new CompletableFuture<>();
            all.add(done);
            new Thread(() -> {
                try {
                    client.call("until");
                    done.complete(null);
                } catch (Throwable error) {
                    done.completeExceptionally(error);
                }
            }).start();
        }
        full.await();
        client.call("stop");
        CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0])).get(50, TimeUnit.SECONDS);
    }
}
