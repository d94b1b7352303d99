package io.github.zkcurator.test;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The process of a server. Its standard input is a pipe that this process holds open, so that the server
 * ends with this process, even if it is killed.
 */
final class ServerProcess {
    private static final String LISTENING = "listening on ";
    private static final String CONTROL = "control on ";
    private static final int KEPT_LINES = 50;
    private static final int STOP_SECONDS = 10;
    private static final int ENDING_MILLIS = 200;

    private final Process process;
    private final Thread errors;
    /** The last lines on standard error. */
    private final Deque<String> said = new ArrayDeque<>();
    /** The lines on standard output until the server is ready. Empty at the end of the output. */
    private final BlockingQueue<Optional<String>> output = new LinkedBlockingQueue<>();
    private final String token;
    private final List<String> addresses = new ArrayList<>();
    private int controlPort;
    private volatile boolean ready;

    /** Starts the program, and waits until it is ready. */
    ServerProcess(Path program, List<String> options, Duration timeout) {
        byte[] random = new byte[16];
        new SecureRandom().nextBytes(random);
        StringBuilder digits = new StringBuilder();
        for (byte value : random) {
            digits.append(String.format(Locale.ROOT, "%02x", value));
        }
        token = digits.toString();

        List<String> command = new ArrayList<>();
        command.add(program.toString());
        command.addAll(options);
        Collections.addAll(command, "--control", "0", "--until-eof");
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("ZK_TEST_SERVER_TOKEN", token);
        process = spawn(builder);
        // Both are read to the end, because a full pipe would block the server.
        follow(process.getInputStream(), "output", line -> {
            if (!ready) {
                output.add(Optional.of(line));
            }
        });
        errors = follow(process.getErrorStream(), "errors", this::keep);
        try {
            awaitReady(program, timeout);
            ready = true;
        } finally {
            if (!ready) {
                process.destroyForcibly();
            }
        }
    }

    private static Process spawn(ProcessBuilder builder) {
        for (int attempt = 1; ; attempt++) {
            try {
                return builder.start();
            } catch (IOException error) {
                // ETXTBSY: a process that another thread has just started still holds the descriptor with
                // which the program was written, until it executes its own program.
                if (attempt == 100 || !error.getMessage().contains("error=26,")) {
                    throw new ServerStartException("start: " + error.getMessage(), error);
                }
                pauseBeforeRetry();
            }
        }
    }

    private static void pauseBeforeRetry() {
        try {
            TimeUnit.MILLISECONDS.sleep(20);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new ServerStartException("start: the thread was interrupted", error);
        }
    }

    private Thread follow(InputStream stream, String name, Consumer<String> take) {
        Thread thread = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    take.accept(line);
                }
            } catch (IOException error) {
                // The process was destroyed, which closes the pipe at this side.
            }
            output.add(Optional.empty());
        }, "zk-test-server " + name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void keep(String line) {
        synchronized (said) {
            if (said.size() == KEPT_LINES) {
                said.removeFirst();
            }
            said.addLast(line);
        }
        System.err.println(line);
    }

    private void awaitReady(Path program, Duration timeout) {
        long start = System.nanoTime();
        try {
            while (true) {
                long left = timeout.toNanos() - (System.nanoTime() - start);
                Optional<String> line = output.poll(left, TimeUnit.NANOSECONDS);
                if (line == null) {
                    String limit = timeout.toMillis() + " ms";
                    throw new ServerStartException(
                            "start: " + program + " was not ready within " + limit + status(), null);
                }
                if (line.isEmpty()) {
                    // A program that has closed one of its outputs is about to end.
                    process.waitFor(Math.max(left, 0), TimeUnit.NANOSECONDS);
                    errors.join(1000);
                    throw new ServerStartException("start: " + program + " did not start" + status(), null);
                }
                if (line.get().startsWith(LISTENING)) {
                    addresses.add(line.get().substring(LISTENING.length()));
                } else if (line.get().startsWith(CONTROL)) {
                    controlPort = port(line.get());
                    return;
                } else {
                    throw new ServerStartException("start: unexpected output of " + program + ": " + line.get(), null);
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new ServerStartException("start: the thread was interrupted", error);
        }
    }

    static int port(String address) {
        try {
            int port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
            if (port > 0 && port <= 0xFFFF) {
                return port;
            }
        } catch (NumberFormatException error) {
            // Falls through.
        }
        throw new ServerStartException("start: '" + address + "' does not end with a port", null);
    }

    /** Describes the process if it has ended, and what it wrote to standard error. */
    String status() {
        StringBuilder text = new StringBuilder();
        if (hasEnded()) {
            text.append("; the server has ended with exit code ").append(process.exitValue());
        }
        synchronized (said) {
            if (!said.isEmpty()) {
                text.append("; it wrote: ").append(String.join(System.lineSeparator(), said));
            }
        }
        return text.toString();
    }

    /** Returns true if the process has ended, or ends now: its connections end a moment before it does. */
    private boolean hasEnded() {
        try {
            return process.waitFor(ENDING_MILLIS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return !process.isAlive();
        }
    }

    List<String> addresses() {
        return Collections.unmodifiableList(addresses);
    }

    ControlClient connect(Duration timeout) {
        InetAddress loopback;
        try {
            loopback = InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
        } catch (UnknownHostException error) {
            throw new AssertionError("it has four bytes", error);
        }
        return new ControlClient(new InetSocketAddress(loopback, controlPort), token, timeout, this::status);
    }

    boolean isAlive() {
        return process.isAlive();
    }

    long pid() {
        return process.pid();
    }

    /** Ends the server, and waits for its end. Kills it if it does not end, or the thread is interrupted. */
    void end() {
        try {
            process.getOutputStream().close();
        } catch (IOException error) {
            // It has ended.
        }
        try {
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
