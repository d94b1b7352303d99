import type { Fields } from "./connection";
import type { Rule } from "./rule";
import { sessionText, type Session } from "./session";

/**
 * A condition of {@link ControlledServer.until}. Counts are of the member with the latest state;
 * watches are counted on all members.
 */
export type Condition =
    /** The node exists. */
    | { exists: string }
    /** The node does not exist. */
    | { absent: string }
    /** The node exists, and has exactly `count` children. */
    | { children: string; count: number }
    /** At least `atLeast` watches are set on the path, of any kind. */
    | { watches: string; atLeast: number }
    /** There are exactly this many sessions. */
    | { sessions: number }
    /** The session has expired or was closed. */
    | { sessionEnded: Session }
    /** The session has a connection. */
    | { sessionConnected: Session }
    /** The session has no connection, also because it has ended. */
    | { sessionDisconnected: Session }
    /** The rule has fired at least `hits` times. Fails with `no_such_rule` if it is removed. */
    | { rule: Rule | string; hits: number }
    /** There is a leader, or there is none. */
    | { leader: boolean };

const SESSIONS: Record<string, string> = {
    sessionEnded: "session_ended",
    sessionConnected: "session_connected",
    sessionDisconnected: "session_disconnected",
};

/** Returns the condition in the form of the protocol. The program checks it. */
export function conditionFields(condition: Condition): Fields {
    const fields = Object.entries(condition).map(([name, value]) => {
        const session = SESSIONS[name];
        if (session !== undefined) {
            return [session, sessionText(value as Session, "until")];
        }
        if (name === "rule") {
            return [name, typeof value === "object" ? value.name : value];
        }
        return [name === "atLeast" ? "at_least" : name, value];
    });
    return Object.fromEntries(fields);
}
