/**
 * The reason of an error.
 *
 * Codes of the program:
 * - `bad_request`: a parameter has the wrong type or value
 * - `no_such_member`, `no_such_session`, `no_such_rule`, `no_such_lag`, `no_such_node`: it does not
 *   exist
 * - `timeout`: a condition did not become true in time; the message has the present state
 * - `unsupported`: this program cannot do it
 * - `unauthorized`, `unsupported_version`: program and package do not fit together
 * - `failed`: the call failed for another reason, such as a port in use
 *
 * Codes of this package:
 * - `no_binary`: there is no program `zk-test-server`
 * - `not_started`: the program has ended before it served, or was not ready in time
 * - `closed`: the server was closed, or its process has ended
 * - `no_response`: the program did not answer a call in time
 */
export type ErrorCode =
    | "bad_request"
    | "unauthorized"
    | "unsupported_version"
    | "no_such_member"
    | "no_such_session"
    | "no_such_rule"
    | "no_such_lag"
    | "no_such_node"
    | "unsupported"
    | "timeout"
    | "failed"
    | "no_binary"
    | "not_started"
    | "closed"
    | "no_response"
    // A newer program may have more codes.
    | (string & {});

/** An error of a test server. Every method of this package fails with this class. */
export class TestServerError extends Error {
    /** The reason. */
    readonly code: ErrorCode;
    /** The name of the call that failed, such as `expire`. */
    readonly call: string;

    constructor(code: ErrorCode, call: string, message: string) {
        // The messages of the program begin with the name of the call.
        super(message.startsWith(`${call}:`) ? message : `${call}: ${message}`);
        this.name = "TestServerError";
        this.code = code;
        this.call = call;
    }
}
