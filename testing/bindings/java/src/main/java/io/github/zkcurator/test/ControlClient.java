package io.github.zkcurator.test;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.function.Supplier;

/**
 * Calls of the control protocol. Each call has a connection to itself while it runs, so that threads can
 * wait for conditions at the same time.
 */
final class ControlClient implements AutoCloseable {
    private static final int VERSION = 1;
    /** The server accepts 64 connections, of all its clients. More waits for conditions than these wait. */
    private static final int MAX_WAITS = 40;
    /** More other calls than these wait. A wait takes no room from them, because they may end it. */
    private static final int MAX_CALLS = 8;
    /** The maximum length of a response in bytes. A probe of a server with many nodes is long. */
    private static final int MAX_RESPONSE = 512 << 20;

    private final InetSocketAddress address;
    private final String token;
    private final Duration timeout;
    private final Supplier<String> status;
    private final Semaphore waits = new Semaphore(MAX_WAITS, true);
    private final Semaphore calls = new Semaphore(MAX_CALLS, true);
    private final Deque<Connection> idle = new ArrayDeque<>();
    private final Set<Connection> open = new HashSet<>();
    private boolean closed;

    /**
     * @param timeout the longest wait for a response
     * @param status describes the server, for messages about lost connections
     */
    ControlClient(InetSocketAddress address, String token, Duration timeout, Supplier<String> status) {
        this.address = address;
        this.token = token;
        this.timeout = timeout;
        this.status = status;
    }

    /** Calls with parameters: a name, its value, and so on. Parameters that are null are left out. */
    Fields call(String call, Object... parameters) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int index = 0; index < parameters.length; index += 2) {
            if (parameters[index + 1] != null) {
                map.put((String) parameters[index], parameters[index + 1]);
            }
        }
        return call(call, map, Duration.ZERO);
    }

    /** Calls, and waits longer than the usual timeout for the response. */
    Fields call(String call, Map<String, Object> parameters, Duration longer) {
        Semaphore permits = call.equals("until") ? waits : calls;
        boolean permitted = false;
        Connection connection = null;
        boolean reusable = false;
        try {
            permits.acquire();
            permitted = true;
            connection = connection(call);
            Fields result = connection.call(call, parameters, timeout.plus(longer));
            reusable = true;
            return result;
        } catch (ControlException error) {
            reusable = error.getCode() != ErrorCode.UNAUTHORIZED;
            throw error;
        } catch (ClosedByInterruptException error) {
            throw interrupted(call, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw interrupted(call, error);
        } catch (SocketTimeoutException error) {
            throw new ServerGoneException(
                    call + ": no response within " + timeout.plus(longer).toMillis() + " ms" + status.get(), error);
        } catch (IOException | Json.Malformed error) {
            String problem = isClosed() ? "the server was closed" : "no response: " + error.getMessage() + status.get();
            throw new ServerGoneException(call + ": " + problem, error);
        } finally {
            if (connection != null) {
                release(connection, reusable);
            }
            if (permitted) {
                permits.release();
            }
        }
    }

    private static ServerGoneException interrupted(String call, Exception cause) {
        return new ServerGoneException(call + ": the thread was interrupted", cause);
    }

    private Connection connection(String call) throws IOException, Json.Malformed {
        synchronized (this) {
            if (closed) {
                throw new ServerGoneException(call + ": the server is closed", null);
            }
            if (!idle.isEmpty()) {
                return idle.pop();
            }
        }
        Connection connection = new Connection(address);
        boolean greeted = false;
        try {
            synchronized (this) {
                // Before the first call, so that `close` can end it.
                open.add(connection);
            }
            Map<String, Object> hello = new LinkedHashMap<>();
            hello.put("version", VERSION);
            hello.put("token", token);
            connection.call("hello", hello, timeout);
            greeted = true;
        } finally {
            if (!greeted) {
                release(connection, false);
            }
        }
        return connection;
    }

    private void release(Connection connection, boolean reusable) {
        synchronized (this) {
            if (reusable && !closed) {
                idle.push(connection);
                return;
            }
            open.remove(connection);
        }
        connection.close();
    }

    private synchronized boolean isClosed() {
        return closed;
    }

    /** Ends all connections. Calls that wait end with an exception. */
    @Override
    public void close() {
        Set<Connection> ended;
        synchronized (this) {
            closed = true;
            ended = new HashSet<>(open);
            open.clear();
            idle.clear();
        }
        ended.forEach(Connection::close);
    }

    /** A connection, used by one thread at a time. */
    private static final class Connection {
        private final SocketChannel channel;
        private final byte[] buffer = new byte[8192];
        private int position;
        private int limit;
        private long nextId = 1;

        Connection(InetSocketAddress address) throws IOException {
            // Unlike that of a Socket, reading of a channel ends when the thread is interrupted.
            channel = SocketChannel.open(address);
            channel.socket().setTcpNoDelay(true);
        }

        Fields call(String call, Map<String, Object> parameters, Duration timeout)
                throws IOException, Json.Malformed {
            long id = nextId++;
            Map<String, Object> request = new LinkedHashMap<>();
            request.put("id", id);
            request.put("call", call);
            request.putAll(parameters);
            ByteBuffer line = StandardCharsets.UTF_8.encode(Json.write(request) + "\n");
            while (line.hasRemaining()) {
                channel.write(line);
            }
            Fields response = new Fields(call, Json.parse(readLine(System.nanoTime(), timeout.toNanos())));
            if (response.raw("error") != null) {
                throw error(call, new Fields(call, response.raw("error")));
            }
            if (response.integer("id") != id) {
                throw new IOException("a response to another request");
            }
            return response.raw("ok") == null
                    ? new Fields(call, new LinkedHashMap<>())
                    : new Fields(call, response.raw("ok"));
        }

        private static ControlException error(String call, Fields error) {
            ErrorCode code = ErrorCode.of(error.text("code"));
            String message = error.text("message");
            return call.equals("until") && code == ErrorCode.TIMEOUT
                    ? new ConditionTimeoutException(message)
                    : new ControlException(code, message);
        }

        private String readLine(long start, long nanos) throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            while (true) {
                for (int index = position; index < limit; index++) {
                    if (buffer[index] == '\n') {
                        line.write(buffer, position, index - position);
                        position = index + 1;
                        return decode(line.toByteArray());
                    }
                }
                line.write(buffer, position, limit - position);
                if (line.size() > MAX_RESPONSE) {
                    throw new IOException("a response of more than " + MAX_RESPONSE + " bytes");
                }
                long millis = (nanos - (System.nanoTime() - start)) / 1_000_000;
                if (millis <= 0) {
                    throw new SocketTimeoutException();
                }
                channel.socket().setSoTimeout((int) Math.min(millis, Integer.MAX_VALUE));
                position = 0;
                limit = Math.max(channel.socket().getInputStream().read(buffer), 0);
                if (limit == 0) {
                    throw new EOFException("the connection has ended");
                }
            }
        }

        private static String decode(byte[] line) throws CharacterCodingException {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(line)).toString();
        }

        void close() {
            try {
                channel.close();
            } catch (IOException error) {
                // Nothing more can be done for it.
            }
        }
    }
}
