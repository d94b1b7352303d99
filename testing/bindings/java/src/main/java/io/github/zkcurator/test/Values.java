package io.github.zkcurator.test;

import java.time.Duration;

/** Values of parameters, checked before they are sent. */
final class Values {
    private static final long MAX_MILLIS = 0xFFFF_FFFFL;

    private Values() {}

    static String id(long id) {
        return "0x" + Long.toHexString(id);
    }

    static String session(String operation, HasSession client) {
        long id;
        try {
            id = client.getSessionId();
        } catch (Exception error) {
            if (error instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
            throw new IllegalStateException(operation + ": the client has not told its session", error);
        }
        if (id == 0) {
            throw new IllegalStateException(operation + ": the client has no session yet");
        }
        return id(id);
    }

    /** Returns milliseconds, rounded up, so that a positive duration never becomes zero. */
    static long millis(String operation, Duration duration) {
        Duration most = Duration.ofMillis(MAX_MILLIS);
        if (duration.isNegative() || duration.compareTo(most) > 0) {
            throw new IllegalArgumentException(
                    operation + ": the duration " + duration + " is not between 0 and " + MAX_MILLIS + " ms");
        }
        return duration.plusNanos(999_999).toMillis();
    }

    static String path(String operation, String path) {
        if (!path.startsWith("/")) {
            throw new IllegalArgumentException(operation + ": the path '" + path + "' does not begin with a slash");
        }
        return path;
    }

    static int atLeast(int least, String operation, String name, int value) {
        if (value < least) {
            throw new IllegalArgumentException(
                    operation + ": " + name + " is " + value + ", but must be at least " + least);
        }
        return value;
    }
}
