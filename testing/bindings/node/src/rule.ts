import type { Fields, TimeLimit } from "./connection";
import { TestServerError } from "./error";
import { sessionText, type Session } from "./session";

/**
 * An operation of ZooKeeper. `create` is any kind of create; a transaction also matches by each of
 * its operations.
 */
export type Operation =
    | "create"
    | "delete"
    | "exists"
    | "getData"
    | "setData"
    | "getAcl"
    | "setAcl"
    | "getChildren"
    | "sync"
    | "check"
    | "multi"
    | "multiRead"
    | "addWatch"
    | "removeWatches"
    | "checkWatches"
    | "setWatches"
    | "auth"
    | "sasl"
    | "ping"
    | "closeSession"
    | "reconfig"
    | "whoAmI"
    | "getEphemerals"
    | "getAllChildrenNumber";

/**
 * What happens to a request:
 * - `loseReply`: it is applied, its reply is lost, and the connection ends
 * - `loseRequest`: it is not applied, and the connection ends after earlier replies
 * - `disconnect`: it is not applied, and the connection ends immediately
 * - `{ delayMs }`: it, and all after it on this connection, arrive later, at the latest when the
 *   rule is removed
 * - `{ refuse }`: it is answered with an error: a name such as `connectionLoss`, `noNode` or
 *   `throttled`, or a code
 *   such as -112
 */
export type Verdict =
    "loseReply" | "loseRequest" | "disconnect" | { delayMs: number } | { refuse: string | number };

/**
 * Which requests a rule is for, and what happens to them. A rule fires for requests that match all
 * conditions.
 */
export interface RuleOptions {
    /** The name of the rule. Default: `rule-1`, `rule-2`, … */
    name?: string;
    /** The operation, or several. Default: every operation. */
    operation?: Operation | readonly Operation[];
    /**
     * A pattern that one path of the request matches: `*` is any characters except slashes, `?` is
     * one, and a component `**` is any number of components. Sequence numbers are not part of the
     * path. Default: every path, and requests without one.
     */
    path?: string;
    /** The parent of a path of the request. A pattern is refused. Default: any. */
    under?: string;
    /** The session of the request. Default: every session. */
    session?: Session;
    /** The member that receives the request, from 0. Default: every member. */
    member?: number;
    /** The number of matching requests that pass first. Default: 0. */
    after?: number;
    /** The maximum number of times that the rule fires, at least 1. Default: no limit. */
    times?: number;
    /** What happens to the request. */
    verdict: Verdict;
}

/** The server that has a rule. */
interface Ruled {
    call(method: string, fields?: Fields): Promise<Fields>;
    until(condition: { rule: Rule; hits: number }, limit?: TimeLimit): Promise<number>;
}

/** A rule of a server. `await using` removes it at the end of the block. */
export class Rule {
    /** The name of the rule. */
    readonly name: string;
    readonly #server: Ruled;

    /** @internal */
    constructor(server: Ruled, name: string) {
        this.#server = server;
        this.name = name;
    }

    /**
     * Returns the number of times that the rule has fired. Fails with `no_such_rule` if it was
     * removed.
     */
    async hits(): Promise<number> {
        return (await this.#server.call("rule", { rule: this.name }))["hits"] as number;
    }

    /**
     * Waits until the rule has fired at least `hits` times. Default: 1.
     *
     * Fails with `timeout` after `timeoutMs` milliseconds (default: 30,000), and with
     * `no_such_rule` if it was removed.
     */
    async until(hits = 1, limit: TimeLimit = {}): Promise<void> {
        await this.#server.until({ rule: this, hits }, limit);
    }

    /**
     * Removes the rule. Returns the number of times that it has fired. Fails with `no_such_rule`
     * the second time.
     */
    async remove(): Promise<number> {
        return (await this.#server.call("remove_rule", { rule: this.name }))["hits"] as number;
    }

    /** Removes the rule, if it is there and the server was not closed. */
    async [Symbol.asyncDispose](): Promise<void> {
        await unlessGone(this.remove(), "no_such_rule");
    }
}

/** Waits for the removal of something that may be gone, with or without its server. */
export async function unlessGone(removal: Promise<unknown>, code: string): Promise<void> {
    try {
        await removal;
    } catch (error) {
        if (!(
            error instanceof TestServerError &&
            (error.code === code || error.code === "closed")
        )) {
            throw error;
        }
    }
}

/** Returns the parameters of `add_rule`. */
export function ruleFields({ operation, session, verdict, ...rest }: RuleOptions): Fields {
    return {
        ...rest,
        operation: typeof operation === "string" ? snakeCase(operation) : operation?.map(snakeCase),
        session: session === undefined ? undefined : sessionText(session, "add_rule"),
        verdict: verdictField(verdict),
    };
}

function verdictField(verdict: Verdict | undefined | null): unknown {
    if (verdict === undefined || verdict === null) {
        const text = "a rule needs a verdict, such as `disconnect`";
        throw new TestServerError("bad_request", "add_rule", text);
    }
    if (typeof verdict === "string") {
        return snakeCase(verdict);
    }
    const { delayMs, refuse, ...unknown } = verdict as { delayMs?: number; refuse?: unknown };
    // The program refuses what is no verdict, and has a say on what is in it.
    return {
        ...unknown,
        ...("delayMs" in verdict ? { delay_ms: delayMs } : {}),
        ...("refuse" in verdict
            ? { refuse: typeof refuse === "string" ? snakeCase(refuse) : refuse }
            : {}),
    };
}

/** Returns a name of the protocol. */
export function snakeCase(name: string): string {
    return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns a name of this package. */
export function camelCase(name: string): string {
    return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
