import type { Fields } from "./connection";
import { camelCase, type Operation } from "./rule";
import { sessionId, type Session } from "./session";

/** A node. */
export interface NodeState {
    readonly path: string;
    /** `null` for a node without data. */
    readonly data: Buffer | null;
    /** The number of changes of the data. */
    readonly version: number;
    /** The number of changes of the children. */
    readonly cversion: number;
    /** The transaction that created the node. */
    readonly czxid: bigint;
    /** The transaction that changed the data last. */
    readonly mzxid: bigint;
    /** The transaction that changed the children last. */
    readonly pzxid: bigint;
    /** The session of an ephemeral node, or `null`. */
    readonly owner: bigint | null;
    readonly container: boolean;
    /** The time to live in milliseconds, or `null`. */
    readonly ttlMs: number | null;
    /** The number of children. */
    readonly children: number;
}

/** A session. */
export interface SessionState {
    readonly session: bigint;
    /** The granted timeout in milliseconds. */
    readonly timeoutMs: number;
    readonly connected: boolean;
    /** The paths of its ephemeral nodes. */
    readonly ephemerals: readonly string[];
    /** Its authenticated identities, such as `digest:user`. */
    readonly identities: readonly string[];
}

/** A watch. */
export interface WatchState {
    readonly session: bigint;
    readonly path: string;
    /** Such as `data`, `children`, `persistent`. */
    readonly kind: string;
}

/**
 * The state of a server at one moment. Nodes of the server itself, below `/zookeeper`, are left
 * out.
 */
export class Probe {
    /** The last transaction. */
    readonly zxid: bigint;
    /** The number of connections since the start. */
    readonly connections: number;
    /** The number of watch events since the start. */
    readonly notifications: number;
    /** The nodes, sorted by path. */
    readonly nodes: readonly NodeState[];
    readonly sessions: readonly SessionState[];
    readonly watches: readonly WatchState[];
    /** The number of requests since the start, by operation. */
    readonly requests: Readonly<Partial<Record<Operation, number>>>;

    /** @internal */
    constructor(fields: Fields) {
        this.zxid = BigInt(fields["zxid"] as string);
        this.connections = fields["connections"] as number;
        this.notifications = fields["notifications"] as number;
        this.nodes = (fields["nodes"] as Fields[]).map(nodeState);
        this.sessions = (fields["sessions"] as Fields[]).map(sessionState);
        this.watches = (fields["watches"] as Fields[]).map(
            ({ session, path, kind }) =>
                ({ session: BigInt(session as string), path, kind }) as WatchState,
        );
        const requests = Object.entries(fields["requests"] as Fields);
        this.requests = Object.fromEntries(
            requests.map(([name, count]) => [camelCase(name), count]),
        );
    }

    /** Returns the node at a path, or `undefined`. */
    node(path: string): NodeState | undefined {
        return this.nodes.find((node) => node.path === path);
    }

    /** Returns the names of the children of a node, sorted. Empty if there is no node. */
    children(path: string): string[] {
        const prefix = path === "/" ? "/" : `${path}/`;
        const below = this.nodes.filter(
            (node) => node.path !== "/" && node.path.startsWith(prefix),
        );
        return below
            .map((node) => node.path.slice(prefix.length))
            .filter((name) => !name.includes("/"));
    }

    /**
     * Returns a session, or `undefined` if it has ended. Fails with `bad_request` if it is not a
     * session.
     */
    session(session: Session): SessionState | undefined {
        const id = sessionId(session, "probe");
        return this.sessions.find((state) => state.session === id);
    }
}

function nodeState(fields: Fields): NodeState {
    return {
        path: fields["path"] as string,
        data: fields["data"] === null ? null : Buffer.from(fields["data"] as string, "base64"),
        version: fields["version"] as number,
        cversion: fields["cversion"] as number,
        czxid: BigInt(fields["czxid"] as string),
        mzxid: BigInt(fields["mzxid"] as string),
        pzxid: BigInt(fields["pzxid"] as string),
        owner: fields["owner"] === null ? null : BigInt(fields["owner"] as string),
        container: fields["container"] as boolean,
        ttlMs: fields["ttl_ms"] as number | null,
        children: fields["children"] as number,
    };
}

function sessionState(fields: Fields): SessionState {
    return {
        session: BigInt(fields["session"] as string),
        timeoutMs: fields["timeout_ms"] as number,
        connected: fields["connected"] as boolean,
        ephemerals: fields["ephemerals"] as string[],
        identities: fields["identities"] as string[],
    };
}
