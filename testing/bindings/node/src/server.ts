import { setTimeout } from "node:timers/promises";

import { conditionFields, type Condition } from "./condition";
import { Connection, type Fields, type TimeLimit } from "./connection";
import { TestServerError } from "./error";
import { Probe } from "./probe";
import { ServerProcess, type LaunchOptions } from "./process";
import { Rule, ruleFields, unlessGone, type RuleOptions } from "./rule";
import { sessionText, type Session } from "./session";

/** A member of a cluster. */
export interface MemberState {
    /** The host and the port, separated by a colon. */
    readonly address: string;
    readonly role:
        "standalone" | "leader" | "follower" | "read-only" | "looking" | "stopped" | (string & {});
    /** The number of transactions that the member has not applied yet. */
    readonly behind: number;
}

/** The state of the members of a server. */
export interface Info {
    readonly connectString: string;
    /** The leader, or `null`. */
    readonly leader: number | null;
    readonly members: readonly MemberState[];
}

/** A fault that was caused. */
export interface JournalEntry {
    /** The time since the start, in milliseconds. */
    readonly atMs: number;
    /** The member, or `null` if it is about all members. */
    readonly member: number | null;
    readonly fault: string;
}

const DEFAULT_WAIT_MS = 30_000;
/** The maximum time until a call is answered, in addition to the time that it waits by itself. */
const CALL_LIMIT_MS = 30_000;
/** The maximum time between the end of a connection and that of the process, if it has ended. */
const EXIT_LIMIT_MS = 1_000;

/**
 * The calls that {@link TestServer} and {@link TestCluster} have.
 *
 * Calls run one after another, in the order in which they are made. Only `until` runs at the same
 * time as other calls. Members are numbered from 0; a call without a member is about all of them.
 * A member that is `null` is refused with `bad_request`: the leader is `null` if there is none.
 * Every call fails with `closed` if the server was closed or its process has ended, with
 * `no_response` after 30 seconds, and with `bad_request` if a parameter has the wrong type or
 * value. Only `close` is useful after `no_response`.
 */
export abstract class ControlledServer {
    /** The addresses of all members, separated by commas, for clients. */
    readonly connectString: string;
    /** The address of each member: the host and the port, separated by a colon. */
    readonly addresses: readonly string[];
    readonly #process: ServerProcess;
    /** For all calls but `until`. */
    readonly #connection: Connection;
    /** The connections of waits that are over. */
    readonly #idle: Connection[] = [];
    readonly #open = new Set<Connection>();
    /** How the process has ended, or that it was closed. */
    #ended: string | undefined;

    /** @internal */
    protected constructor({ process, connection, connectString }: Launched) {
        this.#process = process;
        this.#connection = connection;
        this.connectString = connectString;
        this.addresses = process.addresses;
        this.#open.add(connection);
        void process.ended.then((how) => {
            this.#ended ??= `zk-test-server has ended: ${how}`;
            this.#disconnect();
        });
    }

    /** The process id of the server. */
    get pid(): number | undefined {
        return this.#process.pid;
    }

    /** Returns the roles of the members, and the leader. */
    async info(): Promise<Info> {
        const { connect_string, leader, members } = await this.call("info");
        return { connectString: connect_string, leader, members } as Info;
    }

    /**
     * Stops the server, or a member: connections end, and the port is closed. Nodes and sessions
     * stay.
     *
     * Fails with `no_such_member`.
     */
    async stop(member?: number): Promise<void> {
        await this.call("stop", { member });
    }

    /**
     * Starts a stopped server, or member, on the same port. No effect on one that runs.
     *
     * Fails with `no_such_member`, and with `failed` if the port is in use.
     */
    async start(member?: number): Promise<void> {
        await this.call("start", { member });
    }

    /**
     * Ends all connections and starts again on the same port. Nodes and sessions stay. Fails with
     * `no_such_member`.
     */
    async restart(member?: number): Promise<void> {
        await this.call("restart", { member });
    }

    /**
     * Makes the server, or a member, hang: it accepts connections and bytes, and answers nothing.
     * No session expires in a pause. `resume` ends it.
     *
     * Fails with `no_such_member`.
     */
    async pause(member?: number): Promise<void> {
        await this.call("pause", { member });
    }

    /** Ends `pause`. Fails with `no_such_member`. */
    async resume(member?: number): Promise<void> {
        await this.call("resume", { member });
    }

    /**
     * Cuts the network between the server, or a member, and its clients: bytes wait, and sessions
     * expire. `heal` ends it.
     *
     * Fails with `no_such_member`.
     */
    async partition(member?: number): Promise<void> {
        await this.call("partition", { member });
    }

    /**
     * Ends `partition` of a member. Without a member, ends every `partition` and `split`. Fails
     * with `no_such_member`.
     */
    async heal(member?: number): Promise<void> {
        await this.call("heal", { member });
    }

    /**
     * Makes the server, or a member, serve as without a quorum, or ends that. Fails with
     * `no_such_member`.
     */
    async setReadOnly(readOnly: boolean, member?: number): Promise<void> {
        await this.call("set_read_only", { member, read_only: readOnly });
    }

    /** Ends a session as if its timeout had passed. Fails with `no_such_session`. */
    async expire(session: Session): Promise<void> {
        await this.call("expire", { session: sessionText(session, "expire") });
    }

    /**
     * Closes the connection of a session, or all connections. The sessions stay. Returns the number
     * of connections that were closed, 0 if the session has none.
     *
     * Fails with `no_such_session`.
     */
    async disconnect(session?: Session): Promise<number> {
        const text = session === undefined ? undefined : sessionText(session, "disconnect");
        return (await this.call("disconnect", { session: text }))["connections"] as number;
    }

    /**
     * Lets `byMs` milliseconds, from 0 to 4,294,967,295, pass for sessions, containers, and nodes
     * with a time to live.
     */
    async advance(byMs: number): Promise<void> {
        await this.call("advance", { by_ms: byMs });
    }

    /**
     * Changes the clock of `ctime` and `mtime` by `byMs` milliseconds, from -4,294,967,295 to
     * 4,294,967,295.
     *
     * Fails with `no_such_member`.
     */
    async shiftWallClock(byMs: number, member?: number): Promise<void> {
        await this.call("shift_wall_clock", { member, by_ms: byMs });
    }

    /** Sets the version of the data of a node. Fails with `no_such_node`. */
    async setVersion(path: string, version: number): Promise<void> {
        await this.call("set_version", { path, version });
    }

    /** Sets the next sequence number of the children of a node. Fails with `no_such_node`. */
    async setSequence(path: string, next: number): Promise<void> {
        await this.call("set_sequence", { path, next });
    }

    /**
     * Deletes a node and all nodes below, as an operator does. Returns the sessions of the
     * ephemeral nodes among them.
     *
     * Fails with `no_such_node`.
     */
    async remove(path: string): Promise<bigint[]> {
        return ((await this.call("remove", { path }))["sessions"] as string[]).map(BigInt);
    }

    /** Deletes empty containers and expired nodes now. Returns their paths. */
    async reapContainers(): Promise<string[]> {
        return (await this.call("reap_containers"))["paths"] as string[];
    }

    /**
     * Installs a rule for requests. Of several rules, the first that fires decides. A rule stays
     * until it is removed.
     *
     * Fails with `bad_request` if the name is taken or a condition is malformed.
     */
    async addRule(rule: RuleOptions): Promise<Rule> {
        return new Rule(this, (await this.call("add_rule", ruleFields(rule)))["rule"] as string);
    }

    /** Removes all rules. */
    async removeRules(): Promise<void> {
        await this.call("remove_rules");
    }

    /**
     * Returns the nodes, sessions, watches and counts of a member. Without a member: the nodes and
     * sessions of the member with the latest state, and the watches and counts of all members.
     *
     * Fails with `no_such_member`.
     */
    async probe(member?: number): Promise<Probe> {
        return new Probe(await this.call("probe", { member }));
    }

    /**
     * Waits for a condition. Returns the time that it took, in milliseconds. Several waits, at most
     * 60, can run at the same time.
     *
     * Fails with `timeout` after `timeoutMs` milliseconds (default: 30,000), with the present state
     * in the message.
     */
    async until(
        condition: Condition,
        { timeoutMs = DEFAULT_WAIT_MS }: TimeLimit = {},
    ): Promise<number> {
        if (!Number.isInteger(timeoutMs) || timeoutMs < 0) {
            throw new TestServerError(
                "bad_request",
                "until",
                `not a time in milliseconds: ${timeoutMs}`,
            );
        }
        const parameters = { condition: conditionFields(condition), timeout_ms: timeoutMs };
        return await this.#explain("until", async () => {
            const connection = this.#idle.pop() ?? (await this.#connect());
            try {
                const result = await connection.request(
                    "until",
                    parameters,
                    timeoutMs + CALL_LIMIT_MS,
                );
                return result["waited_ms"] as number;
            } finally {
                if (connection.isOpen) {
                    this.#idle.push(connection);
                } else {
                    this.#open.delete(connection);
                }
            }
        });
    }

    /** Returns the last 10,000 faults, oldest first. */
    async journal(): Promise<JournalEntry[]> {
        const entries = (await this.call("journal"))["entries"] as Fields[];
        return entries.map(
            ({ at_ms, member, fault }) => ({ atMs: at_ms, member, fault }) as JournalEntry,
        );
    }

    /**
     * Removes all rules and lags, heals, resumes and starts all members, and ends `setReadOnly`.
     * Nodes, sessions and clocks stay.
     */
    async reset(): Promise<void> {
        await this.call("reset");
    }

    /**
     * Makes a call of the control protocol, for calls that this version of the package does not
     * know.
     */
    async call(
        name: string,
        parameters: Record<string, unknown> = {},
    ): Promise<Record<string, unknown>> {
        return await this.#explain(name, () =>
            this.#connection.request(name, parameters, CALL_LIMIT_MS),
        );
    }

    /** Ends the server, and waits until its process has ended. No effect the second time. */
    async close(): Promise<void> {
        this.#ended ??= "the server was closed";
        this.#disconnect();
        await this.#process.end();
    }

    /** Closes the server. */
    async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }

    /** Names the call in an error, and gives the reason if the server has ended. */
    async #explain<T>(call: string, body: () => Promise<T>): Promise<T> {
        try {
            return await body();
        } catch (error) {
            if (!(error instanceof TestServerError && error.code === "closed")) {
                const isOther = error instanceof TestServerError && error.call !== call;
                throw isOther ? new TestServerError(error.code, call, error.message) : error;
            }
            if (this.#ended === undefined) {
                // The end of the connection can be noticed before the end of the process.
                const wait = new AbortController();
                await Promise.race([
                    this.#process.ended,
                    setTimeout(EXIT_LIMIT_MS, undefined, wait),
                ]);
                wait.abort();
            }
            throw new TestServerError("closed", call, this.#ended ?? error.message);
        }
    }

    async #connect(): Promise<Connection> {
        const [connection] = await Connection.open(this.#process.endpoint, CALL_LIMIT_MS);
        this.#open.add(connection);
        if (this.#ended !== undefined) {
            this.#disconnect();
        }
        return connection;
    }

    #disconnect(): void {
        for (const connection of this.#open) {
            connection.close();
        }
        this.#open.clear();
        this.#idle.length = 0;
    }
}

/** One server. `await using` closes it at the end of the block. */
export class TestServer extends ControlledServer {
    /**
     * Starts a server.
     *
     * Fails with `no_binary` if there is no program, and with `not_started` if it ends or is not
     * ready in time.
     */
    static async launch(options: LaunchOptions = {}): Promise<TestServer> {
        return new TestServer(await launch(1, options));
    }
}

/** An ensemble of servers in one process. `await using` closes it at the end of the block. */
export class TestCluster extends ControlledServer {
    /**
     * Starts an ensemble of `members` servers, from 1 to 99, with a leader.
     *
     * Fails with `no_binary` if there is no program, and with `not_started` if it ends or is not
     * ready in time.
     */
    static async launch(members: number, options: LaunchOptions = {}): Promise<TestCluster> {
        return new TestCluster(await launch(members, options));
    }

    /**
     * Cuts the network between sides of the ensemble: `[[0], [1, 2]]`. Clients reach every member.
     * `heal` ends it.
     *
     * Fails with `no_such_member`.
     */
    async split(...sides: number[][]): Promise<void> {
        await this.call("split", { sides });
    }

    /**
     * Lets a follower apply transactions `delayMs` milliseconds late. Without `delayMs`, it applies
     * none until the lag ends.
     *
     * Fails with `no_such_member`.
     */
    async lag(member: number, { delayMs }: { delayMs?: number } = {}): Promise<Lag> {
        return new Lag(
            this,
            (await this.call("lag", { member, delay_ms: delayMs }))["lag"] as number,
        );
    }

    /**
     * Elects another leader, or this member. Returns the leader.
     *
     * Fails with `no_such_member`, and with `failed` if no member can be elected.
     */
    async changeLeader(member?: number): Promise<number> {
        return (await this.call("change_leader", { member }))["leader"] as number;
    }
}

/** A follower that lags behind. `await using` ends it at the end of the block. */
export class Lag {
    readonly #server: ControlledServer;
    readonly #lag: number;

    /** @internal */
    constructor(server: ControlledServer, lag: number) {
        this.#server = server;
        this.#lag = lag;
    }

    /**
     * Ends the lag. The follower applies what it has missed. Fails with `no_such_lag` the second
     * time.
     */
    async end(): Promise<void> {
        await this.#server.call("end_lag", { lag: this.#lag });
    }

    /** Ends the lag, if it has not ended and the server was not closed. */
    async [Symbol.asyncDispose](): Promise<void> {
        await unlessGone(this.end(), "no_such_lag");
    }
}

interface Launched {
    readonly process: ServerProcess;
    readonly connection: Connection;
    readonly connectString: string;
}

async function launch(members: number, options: LaunchOptions): Promise<Launched> {
    const process = await ServerProcess.launch(members, options);
    try {
        const [connection, hello] = await Connection.open(process.endpoint, CALL_LIMIT_MS);
        return { process, connection, connectString: hello["connect_string"] as string };
    } catch (error) {
        await process.end();
        throw error;
    }
}
