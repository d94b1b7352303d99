// The npm packages `zookeeper`, which is the C client, and `node-zookeeper-client` with one
// interface, so that both run the same tests.
import { EventEmitter, once } from "node:events";
import pure from "node-zookeeper-client";
import ZooKeeper from "zookeeper";

/** The error codes of ZooKeeper that the tests need. */
export const Code = {
    connectionLoss: -4,
    noNode: -101,
    noAuth: -102,
    nodeExists: -110,
    sessionExpired: -112,
};

/** An error of ZooKeeper, with its code. */
class ZooKeeperError extends Error {
    constructor(code, message) {
        super(`${code}: ${message}`);
        this.code = code;
    }
}

/** What both clients have in common. Emits `connected`, `disconnected` and `expired`. */
class Client extends EventEmitter {
    /** Waits for a connection. Fails if the session has expired. */
    async connected() {
        if (this.hasExpired) {
            throw new ZooKeeperError(Code.sessionExpired, "session expired");
        }
        if (!this.isConnected) {
            await Promise.race([
                once(this, "connected"),
                once(this, "expired").then(() => {
                    throw new ZooKeeperError(Code.sessionExpired, "session expired");
                }),
            ]);
        }
    }

    /** Repeats a request until its connection is not lost. */
    async retry(request) {
        for (;;) {
            await this.connected();
            try {
                return await request();
            } catch (error) {
                if (error.code !== Code.connectionLoss) {
                    throw error;
                }
            }
        }
    }

    /** Waits until a node is gone, by a watch. */
    async gone(path) {
        for (;;) {
            const changed = new EventEmitter();
            const event = once(changed, "event");
            const lost = once(this, "disconnected");
            if (!(await this.retry(() => this.exists(path, () => changed.emit("event"))))) {
                return;
            }
            await Promise.race([event, lost]);
        }
    }
}

class NativeClient extends Client {
    isConnected = false;
    hasExpired = false;

    constructor(hosts, timeoutMs) {
        super();
        const error = ZooKeeper.constants.ZOO_LOG_LEVEL_ERROR;
        this.session = new ZooKeeper({ connect: hosts, timeout: timeoutMs, debug_level: error });
        this.session.on("connect", () => this.#is(true, "connected"));
        this.session.on("connecting", () => this.#is(false, "disconnected"));
        this.session.on("close", (_, code) => {
            this.hasExpired = code === ZooKeeper.constants.ZOO_EXPIRED_SESSION_STATE;
            this.#is(false, this.hasExpired ? "expired" : "closed");
        });
        this.session.init({});
    }

    #is(connected, event) {
        this.isConnected = connected;
        this.emit(event);
    }

    async #run(request) {
        try {
            return await request;
        } catch (error) {
            const code = Number(/-\d+/.exec(error.message)?.[0]);
            throw new ZooKeeperError(code, error.message);
        }
    }

    async create(path, data = "", { ephemeral = false, sequential = false } = {}) {
        const { ZOO_EPHEMERAL, ZOO_SEQUENCE } = ZooKeeper.constants;
        const flags = (ephemeral ? ZOO_EPHEMERAL : 0) | (sequential ? ZOO_SEQUENCE : 0);
        return await this.#run(this.session.create(path, data, flags));
    }

    async get(path, onEvent) {
        const { ZOO_CHANGED_EVENT } = ZooKeeper.constants;
        const watch = (type) => onEvent(type === ZOO_CHANGED_EVENT ? "changed" : "other");
        const read = onEvent ? this.session.w_get(path, watch) : this.session.get(path, false);
        const [, data] = await this.#run(read);
        return data.toString();
    }

    async exists(path, onEvent) {
        try {
            await this.#run(
                onEvent ? this.session.w_exists(path, onEvent) : this.session.exists(path, false),
            );
            return true;
        } catch (error) {
            if (error.code === Code.noNode) {
                return false;
            }
            throw error;
        }
    }

    async children(path) {
        return await this.#run(this.session.get_children(path, false));
    }

    async set(path, data) {
        await this.#run(this.session.set(path, data, -1));
    }

    async delete(path) {
        await this.#run(this.session.delete_(path, -1));
    }

    async close() {
        this.session.close();
    }
}

class PureClient extends Client {
    constructor(hosts, timeoutMs) {
        super();
        this.session = pure.createClient(hosts, { sessionTimeout: timeoutMs, spinDelay: 50 });
        for (const event of ["connected", "disconnected", "expired"]) {
            this.session.on(event, () => this.emit(event));
        }
        this.session.connect();
    }

    get isConnected() {
        return this.session.getState() === pure.State.SYNC_CONNECTED;
    }

    get hasExpired() {
        return this.session.getState() === pure.State.EXPIRED;
    }

    async #run(method, ...parameters) {
        return await new Promise((resolve, reject) => {
            this.session[method](...parameters, (error, ...results) => {
                if (error) {
                    reject(new ZooKeeperError(error.code, error.message));
                } else {
                    resolve(results);
                }
            });
        });
    }

    async create(path, data = "", { ephemeral = false, sequential = false } = {}) {
        const { EPHEMERAL, PERSISTENT_SEQUENTIAL } = pure.CreateMode;
        const mode = (ephemeral ? EPHEMERAL : 0) | (sequential ? PERSISTENT_SEQUENTIAL : 0);
        return (await this.#run("create", path, Buffer.from(data), mode))[0];
    }

    async get(path, onEvent) {
        const { NODE_DATA_CHANGED } = pure.Event;
        const watch = (event) =>
            onEvent(event.getType() === NODE_DATA_CHANGED ? "changed" : "other");
        return (await this.#run("getData", path, ...(onEvent ? [watch] : [])))[0].toString();
    }

    async exists(path, onEvent) {
        return (await this.#run("exists", path, ...(onEvent ? [onEvent] : [])))[0] !== null;
    }

    async children(path) {
        return (await this.#run("getChildren", path))[0];
    }

    async set(path, data) {
        await this.#run("setData", path, Buffer.from(data));
    }

    async delete(path) {
        await this.#run("remove", path);
    }

    async close() {
        this.session.close();
    }
}

const CLASSES = { zookeeper: NativeClient, "node-zookeeper-client": PureClient };

/** The names of the clients. */
export const clients = Object.keys(CLASSES);

/**
 * Connects a client for a test, and closes it after the test. The C client waits a third of its
 * timeout before it connects again for the second time.
 */
export async function connect(t, name, server, timeoutMs = 10_000) {
    const client = new CLASSES[name](server.connectString, timeoutMs);
    t.after(() => client.close());
    await client.connected();
    return client;
}
