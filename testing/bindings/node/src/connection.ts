import { connect, type Socket } from "node:net";

import { reserveDescriptors } from "./descriptors";
import { TestServerError } from "./error";

/** The version of the control protocol. */
const VERSION = 1;
/** The longest time of a timer. */
const MAX_LIMIT_MS = 2 ** 31 - 1;

/** The address and the secret of a control port. */
export interface Endpoint {
    readonly host: string;
    readonly port: number;
    readonly token: string;
}

/** The parameters of a call, or its result. */
export type Fields = Record<string, unknown>;

/** The time limit of a wait. */
export interface TimeLimit {
    /** The maximum time in milliseconds, from 0 to 4,294,967,295. Default: 30,000. */
    timeoutMs?: number;
}

interface Pending {
    readonly call: string;
    readonly timer: NodeJS.Timeout;
    resolve(result: Fields): void;
    reject(error: TestServerError): void;
}

/**
 * A connection to the control port. The program answers its requests in order.
 *
 * It keeps the event loop alive only while a request waits for its response.
 */
export class Connection {
    readonly #socket: Socket;
    readonly #pending = new Map<number, Pending>();
    #lastId = 0;
    /** The beginning of a line whose end has not arrived. */
    #partial: Buffer[] = [];
    #ended = false;

    private constructor(socket: Socket) {
        this.#socket = socket;
        socket.setNoDelay(true);
        socket.on("data", (chunk: Buffer) => this.#receive(chunk));
        socket.on("error", (error) => this.#end("closed", error.message));
        socket.on("close", () => this.#end("closed", "the connection to zk-test-server has ended"));
    }

    /**
     * Connects and says hello within `limitMs` milliseconds. Returns the connection and the
     * response.
     */
    static async open(endpoint: Endpoint, limitMs: number): Promise<[Connection, Fields]> {
        const release = reserveDescriptors();
        const socket = connect(endpoint.port, endpoint.host)
            .once("connect", release)
            .once("close", release);
        const connection = new Connection(socket);
        const hello = await connection.request(
            "hello",
            { version: VERSION, token: endpoint.token },
            limitMs,
        );
        return [connection, hello];
    }

    /** `false` once the connection has ended. */
    get isOpen(): boolean {
        return !this.#ended;
    }

    /**
     * Sends a request and returns the result. Fails with `no_response` after `limitMs`
     * milliseconds, and ends the connection then, because later responses wait for this one.
     */
    async request(call: string, parameters: Fields, limitMs: number): Promise<Fields> {
        if (this.#ended) {
            throw new TestServerError("closed", call, "the connection to zk-test-server has ended");
        }
        const id = ++this.#lastId;
        this.#socket.ref();
        try {
            return await new Promise<Fields>((resolve, reject) => {
                const limit = Math.min(limitMs, MAX_LIMIT_MS);
                const timer = setTimeout(
                    () => this.#end("no_response", `no response within ${limit} ms`),
                    limit,
                );
                this.#pending.set(id, { call, timer, resolve, reject });
                this.#socket.write(`${JSON.stringify({ ...parameters, id, call })}\n`);
            });
        } catch (error) {
            // Created again, so that its stack names the callers.
            throw error instanceof TestServerError
                ? new TestServerError(error.code, call, error.message)
                : error;
        } finally {
            if (this.#pending.size === 0) {
                this.#socket.unref();
            }
        }
    }

    /** Ends the connection. Pending requests fail with `closed`. */
    close(): void {
        this.#end("closed", "the server was closed");
    }

    #receive(chunk: Buffer): void {
        let start = 0;
        for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", start)) {
            const line = Buffer.concat([...this.#partial, chunk.subarray(start, end)]);
            this.#partial = [];
            start = end + 1;
            this.#answer(line.toString());
        }
        this.#partial.push(chunk.subarray(start));
    }

    #answer(line: string): void {
        let response: { id?: unknown; ok?: Fields; error?: { code: string; message: string } };
        try {
            response = JSON.parse(line);
        } catch {
            this.#end("failed", `not a response: ${line.slice(0, 200)}`);
            return;
        }
        const pending =
            typeof response.id === "number" ? this.#pending.get(response.id) : undefined;
        if (pending === undefined) {
            // The program answers so to lines that it cannot read, and closes the connection.
            this.#end(
                response.error?.code ?? "failed",
                response.error?.message ?? `not a response: ${line.slice(0, 200)}`,
            );
            return;
        }
        this.#pending.delete(response.id as number);
        clearTimeout(pending.timer);
        if (response.error !== undefined) {
            pending.reject(
                new TestServerError(response.error.code, pending.call, response.error.message),
            );
        } else {
            pending.resolve(response.ok ?? {});
        }
    }

    #end(code: string, message: string): void {
        this.#ended = true;
        this.#socket.destroy();
        for (const { call, timer, reject } of this.#pending.values()) {
            clearTimeout(timer);
            reject(new TestServerError(code, call, message));
        }
        this.#pending.clear();
    }
}
