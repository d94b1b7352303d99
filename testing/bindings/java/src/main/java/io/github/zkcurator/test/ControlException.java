package io.github.zkcurator.test;

/** Thrown when the server refuses a call, or fails to execute it. */
public class ControlException extends ZkTestServerException {
    private static final long serialVersionUID = 1L;

    /** The code. */
    private final ErrorCode code;

    ControlException(ErrorCode code, String message) {
        super(message, null);
        this.code = code;
    }

    /**
     * Returns the code of the error.
     *
     * @return the code
     */
    public final ErrorCode getCode() {
        return code;
    }
}
