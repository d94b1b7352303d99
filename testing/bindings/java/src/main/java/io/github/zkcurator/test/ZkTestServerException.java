package io.github.zkcurator.test;

/**
 * The base of the exceptions of this package. It is unchecked, because a test can rarely do more than
 * fail.
 */
public class ZkTestServerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ZkTestServerException(String message, Throwable cause) {
        super(message, cause);
    }
}
