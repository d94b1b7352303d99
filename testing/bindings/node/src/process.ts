import { spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";

import { findBinary } from "./binary";
import type { Endpoint } from "./connection";
import { reserveDescriptors } from "./descriptors";
import { TestServerError } from "./error";

/** The settings of a server or a cluster. */
export interface LaunchOptions {
    /** The port of the first member; others have the next ports. Default: 0, any free ports. */
    port?: number;
    /**
     * The granularity of session expiry in milliseconds, at least 1. A session is noticed as
     * expired up to one tick late. Default: 100.
     */
    tickTimeMs?: number;
    /** The shortest session timeout that is granted, in milliseconds. Default: 2 ticks. */
    minSessionTimeoutMs?: number;
    /** The longest session timeout that is granted, in milliseconds. Default: 60,000. */
    maxSessionTimeoutMs?: number;
    /** More options of the program; `zk-test-server --help` lists them. Default: none. */
    arguments?: readonly string[];
    /**
     * The path of the program. Default: of `ZK_TEST_SERVER_BIN`, of the package for this platform,
     * or in `PATH`.
     */
    binary?: string;
    /** The maximum time until the server is ready, in milliseconds. Default: 30,000. */
    startTimeoutMs?: number;
}

const TICK_TIME_MS = 100;
/** More than clients ask for, so that they get what they ask for. */
const MAX_SESSION_TIMEOUT_MS = 60_000;
const START_TIMEOUT_MS = 30_000;
/** The time until a program that does not end is killed. */
const END_TIMEOUT_MS = 10_000;
/** The maximum number of characters of standard error that an error shows. */
const MAX_COMPLAINT = 4_096;

/**
 * A process of the program. It ends at the end of its standard input, and thus with this process.
 */
export class ServerProcess {
    readonly #child: ChildProcess;
    /** Resolves to the way in which the process has ended. */
    readonly ended: Promise<string>;

    private constructor(
        child: ChildProcess,
        ended: Promise<string>,
        /** The control port. */
        readonly endpoint: Endpoint,
        /** The addresses of the members. */
        readonly addresses: readonly string[],
    ) {
        this.#child = child;
        this.ended = ended;
    }

    /** Starts the program, and waits until it serves. */
    static async launch(members: number, options: LaunchOptions): Promise<ServerProcess> {
        const token = randomBytes(16).toString("hex");
        const child = start(options.binary ?? findBinary(), commandLine(members, options), token);
        // The program may end before it has read its input.
        child.stdin.on("error", () => undefined);
        const ended = new Promise<string>((resolve) => {
            child.once("error", (error) => resolve(error.message));
            child.once("exit", (code, signal) =>
                resolve(signal === null ? `exit code ${code}` : `signal ${signal}`),
            );
        });
        let complaint = "";
        child.stderr.setEncoding("utf8").on("data", (text: string) => {
            complaint = (complaint + text).slice(-MAX_COMPLAINT);
        });
        try {
            const lines = await ready(child, ended, options.startTimeoutMs ?? START_TIMEOUT_MS);
            const control = lines.control.lastIndexOf(":");
            const [host, port] = [
                lines.control.slice(0, control),
                Number(lines.control.slice(control + 1)),
            ];
            // Warnings of the start, and later ones.
            process.stderr.write(complaint);
            child.stderr
                .removeAllListeners("data")
                .on("data", (text: string) => process.stderr.write(text));
            for (const handle of [child, child.stdin, child.stdout, child.stderr]) {
                // Forgotten servers do not keep the event loop alive.
                (handle as ChildProcess | Socket).unref();
            }
            return new ServerProcess(child, ended, { host, port, token }, lines.addresses);
        } catch (error) {
            child.kill("SIGKILL");
            const text =
                (error as Error).message + (complaint === "" ? "" : `: ${complaint.trim()}`);
            throw new TestServerError("not_started", "launch", text);
        }
    }

    /** The process id. */
    get pid(): number | undefined {
        return this.#child.pid;
    }

    /** Ends the process, and waits until it has ended. */
    async end(): Promise<void> {
        this.#child.ref();
        this.#child.stdin?.end();
        const timer = setTimeout(() => this.#child.kill("SIGKILL"), END_TIMEOUT_MS);
        await this.ended;
        clearTimeout(timer);
    }
}

function start(
    binary: string,
    parameters: readonly string[],
    token: string,
): ChildProcessWithoutNullStreams {
    const release = reserveDescriptors();
    try {
        return spawn(binary, parameters, {
            env: { ...process.env, ZK_TEST_SERVER_TOKEN: token },
            stdio: ["pipe", "pipe", "pipe"],
            windowsHide: true,
        });
    } catch (error) {
        // A path that cannot be one, such as an empty one.
        throw new TestServerError("not_started", "launch", (error as Error).message);
    } finally {
        release();
    }
}

function commandLine(members: number, options: LaunchOptions): string[] {
    const values: [string, number | undefined][] = [
        ["--ensemble", members === 1 ? undefined : members],
        ["--port", options.port ?? 0],
        ["--tick-time", options.tickTimeMs ?? TICK_TIME_MS],
        ["--min-session-timeout", options.minSessionTimeoutMs],
        ["--max-session-timeout", options.maxSessionTimeoutMs ?? MAX_SESSION_TIMEOUT_MS],
        ["--control", 0],
    ];
    const given = values
        .filter(([, value]) => value !== undefined)
        .flatMap(([name, value]) => [name, String(value)]);
    return [...given, "--until-eof", ...(options.arguments ?? [])];
}

/** Waits for the lines that say that the program serves. */
function ready(
    child: ChildProcess,
    ended: Promise<string>,
    limitMs: number,
): Promise<{ addresses: string[]; control: string }> {
    return new Promise((resolve, reject) => {
        const addresses: string[] = [];
        const timer = setTimeout(
            () => reject(new Error(`the program is not ready after ${limitMs} ms`)),
            limitMs,
        );
        const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
        // Also reads and ignores later lines, so that the program never waits for a reader.
        lines.on("line", (line) => {
            const [, kind, address] = /^(listening|control) on (\S+)$/.exec(line) ?? [];
            if (kind === "listening") {
                addresses.push(address as string);
            } else if (kind === "control") {
                clearTimeout(timer);
                resolve({ addresses, control: address as string });
            }
        });
        const fail = async () => {
            const how = await ended;
            clearTimeout(timer);
            reject(new Error(`the program has ended: ${how}`));
        };
        // Its last words arrive before `close`. There is no `close` if it cannot be started.
        child.once("close", fail);
        child.once("error", fail);
    });
}
