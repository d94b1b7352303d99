import { TestServerError } from "./error";

/**
 * A session of ZooKeeper:
 * - a connected client of the npm package `zookeeper`, or of `node-zookeeper-client`
 * - the 64-bit id as a `BigInt`, signed or unsigned
 * - the id as a string: `0x` and hexadecimal digits
 */
export type Session =
    | bigint
    | string
    // It is a string, although the types of `zookeeper` say that it is a number.
    | { readonly client_id: string | number }
    | { getSessionId(): Uint8Array };

const MAX = (1n << 64n) - 1n;
const MIN = -(1n << 63n);

/**
 * Returns the id of a session, from 0 to 2^64 - 1.
 *
 * Fails with `bad_request` if it is not a session, or if the client has no session yet.
 */
export function sessionId(session: Session, call = "sessionId"): bigint {
    const id = parse(session);
    if (id === undefined || id < MIN || id > MAX) {
        const wanted = "a client, a BigInt, or a string such as 0x1f";
        throw new TestServerError(
            "bad_request",
            call,
            `not a session: ${String(session)}; wants ${wanted}`,
        );
    }
    if (id === 0n) {
        throw new TestServerError("bad_request", call, "the client has no session yet");
    }
    return BigInt.asUintN(64, id);
}

/** Returns a session in the form of the protocol. */
export function sessionText(session: Session, call: string): string {
    return `0x${sessionId(session, call).toString(16)}`;
}

function parse(session: unknown): bigint | undefined {
    if (typeof session === "bigint") {
        return session;
    }
    if (typeof session === "string") {
        return hexadecimal(session.startsWith("0x") ? session.slice(2) : "");
    }
    if (typeof session !== "object" || session === null) {
        return undefined;
    }
    if ("getSessionId" in session && typeof session.getSessionId === "function") {
        const bytes: unknown = session.getSessionId();
        return bytes instanceof Uint8Array
            ? hexadecimal(Buffer.from(bytes).toString("hex"))
            : undefined;
    }
    return "client_id" in session && typeof session.client_id === "string"
        ? hexadecimal(session.client_id)
        : undefined;
}

function hexadecimal(digits: string): bigint | undefined {
    return /^[0-9a-f]{1,16}$/i.test(digits) ? BigInt(`0x${digits}`) : undefined;
}
