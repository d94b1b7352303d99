package io.github.zkcurator.test;

/**
 * Thrown when a call has no usable response: the server is closed or has ended, the calling thread was
 * interrupted, the response did not arrive in time, or it is malformed. The call may have had its
 * effect.
 */
public final class ServerGoneException extends ZkTestServerException {
    private static final long serialVersionUID = 1L;

    ServerGoneException(String message, Throwable cause) {
        super(message, cause);
    }
}
