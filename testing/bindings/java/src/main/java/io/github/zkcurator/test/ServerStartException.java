package io.github.zkcurator.test;

/**
 * Thrown when a server cannot start: the program was not found, an option is invalid, a port is in use,
 * or the server was not ready in time. The message contains what the program wrote to standard error.
 */
public final class ServerStartException extends ZkTestServerException {
    private static final long serialVersionUID = 1L;

    ServerStartException(String message, Throwable cause) {
        super(message, cause);
    }
}
