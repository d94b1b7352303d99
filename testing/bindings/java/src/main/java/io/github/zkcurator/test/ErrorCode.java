package io.github.zkcurator.test;

import java.util.Locale;

/** The code of an error response. */
public enum ErrorCode {
    /** The request is malformed, or a parameter has a value that the call does not accept. */
    BAD_REQUEST,
    /** The token is wrong. */
    UNAUTHORIZED,
    /** The server does not support the version of the protocol. */
    UNSUPPORTED_VERSION,
    /** The ensemble does not have this member. */
    NO_SUCH_MEMBER,
    /** The session does not exist. */
    NO_SUCH_SESSION,
    /** The rule does not exist. */
    NO_SUCH_RULE,
    /** The lag does not exist. */
    NO_SUCH_LAG,
    /** The node does not exist. */
    NO_SUCH_NODE,
    /** The server cannot do it. */
    UNSUPPORTED,
    /** The condition did not become true in time. */
    TIMEOUT,
    /** The call failed for another reason. */
    FAILED,
    /** A code that this version of the package does not know. */
    UNKNOWN;

    static ErrorCode of(String name) {
        for (ErrorCode code : values()) {
            if (code.protocolName().equals(name)) {
                return code;
            }
        }
        return UNKNOWN;
    }

    /**
     * Returns the name of the code in the control protocol.
     *
     * @return the name, such as {@code no_such_session}
     */
    public String protocolName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
