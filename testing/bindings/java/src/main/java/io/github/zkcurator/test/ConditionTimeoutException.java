package io.github.zkcurator.test;

/**
 * Thrown when a condition did not become true in time. The message contains the present state. The code
 * is {@link ErrorCode#TIMEOUT}.
 */
public final class ConditionTimeoutException extends ControlException {
    private static final long serialVersionUID = 1L;

    ConditionTimeoutException(String message) {
        super(ErrorCode.TIMEOUT, message);
    }
}
