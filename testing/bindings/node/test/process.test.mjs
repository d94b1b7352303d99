// The server ends with the process that has started it.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { constants, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { findBinary, TestServer } from "zk-test-server";

const folder = fileURLToPath(new URL(".", import.meta.url));

/** Runs a program of this package, and returns the process and its first line of output. */
async function run(t, code) {
    const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
        cwd: folder,
        stdio: ["pipe", "pipe", "inherit"],
    });
    t.after(() => child.kill("SIGKILL"));
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    return [child, JSON.parse(line)];
}

/** Waits until no server listens on an address. Its connection ends with the server. */
async function ended(address) {
    const [host, port] = address.split(":");
    const socket = connect(Number(port), host).on("error", () => undefined);
    socket.resume();
    await new Promise((resolve) => socket.once("close", resolve));
}

function isAlive(pid) {
    try {
        return process.kill(pid, 0);
    } catch {
        return false;
    }
}

const command = fileURLToPath(new URL("node_modules/.bin/zk-test-server", import.meta.url));

/** Runs the command of the package, and returns the process and the address of its server. */
async function runCommand(t, ...parameters) {
    const child = spawn(command, ["--port", "0", ...parameters], {
        stdio: ["pipe", "pipe", "inherit"],
    });
    t.after(() => child.kill("SIGKILL"));
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    assert.match(line, /^listening on /);
    return [child, line.split(" ").pop()];
}

const LAUNCH = `
    import { TestServer } from "zk-test-server";
    const server = await TestServer.launch();
    console.log(JSON.stringify([server.connectString, server.pid]));
`;

test("the server ends when its process is killed", async (t) => {
    const [child, [address, pid]] = await run(t, `${LAUNCH} setInterval(() => undefined, 1000);`);
    const [host, port] = address.split(":");
    const socket = connect(Number(port), host);
    await once(socket, "connect");
    assert(isAlive(pid));

    const closed = once(socket, "close");
    child.kill("SIGKILL");
    await closed;
    await ended(address);
});

test("a forgotten server does not keep its process", async (t) => {
    const [child, [address]] = await run(t, LAUNCH);
    const [code] = await once(child, "exit");
    assert.equal(code, 0);
    await ended(address);
});

test("a wait keeps its process", async (t) => {
    const [child, result] = await run(
        t,
        `
        import { TestServer } from "zk-test-server";
        const server = await TestServer.launch();
        const wait = server.until({ exists: "/a" }, { timeoutMs: 100 });
        console.log(JSON.stringify(await wait.catch((error) => error.code)));
    `,
    );
    assert.equal(result, "timeout");
    assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("a closed server is gone", async () => {
    const server = await TestServer.launch();
    const { pid } = server;
    const journal = server.journal();
    await Promise.all([server.close(), server.close(), journal.catch(() => undefined)]);
    assert(!isAlive(pid));
    await server[Symbol.asyncDispose]();
});

test("many servers run at the same time", async () => {
    const servers = await Promise.all(Array.from({ length: 12 }, () => TestServer.launch()));
    assert.equal(new Set(servers.map((server) => server.connectString)).size, 12);
    await Promise.all(servers.map((server) => server.setReadOnly(true)));
    await Promise.all(servers.map((server) => server.close()));
});

test("the command runs the program", async (t) => {
    const version = spawnSync(command, ["--version"], { encoding: "utf8" });
    assert.equal(
        version.stdout,
        spawnSync(findBinary(), ["--version"], { encoding: "utf8" }).stdout,
    );
    assert.equal(spawnSync(command, ["--no-such-option"]).status, 2);

    const [child, address] = await runCommand(t);
    child.kill("SIGTERM");
    assert.deepEqual(await once(child, "exit"), [0, null]);
    await ended(address);
});

test("a signal during the start does not end the command alone", async (t) => {
    const early = join(mkdtempSync(join(tmpdir(), "zk-test-server-")), "early.cjs");
    t.after(() => rmSync(dirname(early), { recursive: true }));
    // The signal arrives as soon as the program runs.
    const code = `
        const processes = require("node:child_process");
        const { spawn } = processes;
        processes.spawn = (...parameters) => {
            const child = spawn(...parameters);
            process.kill(process.pid, "SIGTERM");
            return child;
        };
    `;
    writeFileSync(early, code);
    const child = spawn(process.execPath, ["--require", early, command, "--port", "0"]);
    const [status, signal] = await once(child, "exit");
    // The program gets the signal before or after it can receive one.
    assert.equal(signal, null);
    assert([0, 128 + constants.signals.SIGTERM].includes(status), `${status}`);
});

test("the program ends when its command is killed", async (t) => {
    const [child, address] = await runCommand(t);
    child.kill("SIGKILL");
    await ended(address);
});

test("the command passes on the end of its input", async (t) => {
    const [child, address] = await runCommand(t, "--until-eof");
    child.stdin.end();
    assert.deepEqual(await once(child, "exit"), [0, null]);
    await ended(address);
});
