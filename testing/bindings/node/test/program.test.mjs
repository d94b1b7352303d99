// The behaviour when the program is missing, does not start, or does not answer.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
    chmodSync,
    copyFileSync,
    mkdirSync,
    mkdtempSync,
    rmSync,
    symlinkSync,
    writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { constants, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { findBinary, TestServer, TestServerError } from "zk-test-server";

const fakeProgram = fileURLToPath(new URL("fake-program.mjs", import.meta.url));

async function fake(fault, options = {}) {
    process.env.FAKE = fault;
    return await TestServer.launch({ binary: fakeProgram, ...options });
}

/** Sets an environment variable during a test. */
function setVariable(t, name, value) {
    const before = process.env[name];
    t.after(() => (before === undefined ? delete process.env[name] : (process.env[name] = before)));
    if (value === undefined) {
        delete process.env[name];
    } else {
        process.env[name] = value;
    }
}

function folder(t) {
    const path = mkdtempSync(join(tmpdir(), "zk-test-server-"));
    t.after(() => rmSync(path, { recursive: true }));
    return path;
}

test("a program that ends is reported with its last words", async () => {
    await assert.rejects(fake("ends"), (error) => {
        assert(error instanceof TestServerError);
        assert.equal(error.code, "not_started");
        assert.match(
            error.message,
            /^launch: the program has ended: exit code 2: zk-test-server: port 1 is in use$/,
        );
        return true;
    });
});

test("a program that is not ready in time is reported", async () => {
    const launched = fake("silent", { startTimeoutMs: 200 });
    await assert.rejects(launched, {
        code: "not_started",
        message: "launch: the program is not ready after 200 ms",
    });
});

test("a file that is no program is reported", async (t) => {
    const path = join(folder(t), "zk-test-server");
    writeFileSync(path, "text");
    for (const binary of [path, `${path}-missing`, ""]) {
        await assert.rejects(TestServer.launch({ binary }), { code: "not_started" });
    }
    setVariable(t, "ZK_TEST_SERVER_BIN", path);
    const message = `launch: ZK_TEST_SERVER_BIN is not a program: ${path}`;
    assert.throws(findBinary, { code: "no_binary", message });
});

test("a program of another version is reported", async () => {
    const message = "hello: version 1 is not supported, only 0";
    await assert.rejects(fake("old"), { code: "unsupported_version", call: "hello", message });
});

test("it says hello, and ignores unknown fields", async () => {
    const server = await fake("");
    assert.equal(server.connectString, "127.0.0.1:1");
    assert.deepEqual(server.addresses, ["127.0.0.1:1"]);
    await server.close();
});

test("warnings of the program are shown", () => {
    const code = `
        import { TestServer } from "zk-test-server";
        await (await TestServer.launch()).close();
    `;
    const { status, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", code], {
        cwd: dirname(fakeProgram),
        encoding: "utf8",
        env: { ...process.env, FAKE: "warns", ZK_TEST_SERVER_BIN: fakeProgram },
    });
    assert.deepEqual([status, stderr], [0, "zk-test-server: a warning\n"]);
});

test("the command ends with the exit code of the program", () => {
    const command = join(dirname(fakeProgram), "node_modules/.bin/zk-test-server");
    for (const [fault, code] of [
        ["ends", 2],
        ["is killed", 128 + constants.signals.SIGKILL],
    ]) {
        const env = { ...process.env, FAKE: fault, ZK_TEST_SERVER_BIN: fakeProgram };
        assert.equal(spawnSync(command, { env }).status, code);
    }
});

test("an unknown error code is kept", async () => {
    const server = await fake("later code");
    await assert.rejects(server.info(), {
        code: "out_of_coffee",
        call: "info",
        message: "info: no coffee",
    });
    await server.close();
});

for (const [fault, code, message] of [
    ["garbage", "failed", /^info: not a response: \{not JSON$/],
    ["unreadable", "bad_request", /^info: the line is longer than 1 MiB$/],
    ["closes", "closed", /^info: the connection to zk-test-server has ended$/],
]) {
    test(`calls fail if the program answers with a fault: ${fault}`, async () => {
        const server = await fake(fault);
        const calls = [server.info(), server.info()];
        for (const call of calls) {
            await assert.rejects(call, { code });
        }
        await assert.rejects(calls[0], { message });
        await assert.rejects(server.info(), { code: "closed" });
        await server.close();
    });
}

test("calls fail with the exit code of a program that has ended", async () => {
    const server = await fake("dies");
    await assert.rejects(server.info(), { code: "closed" });
    await assert.rejects(server.until({ exists: "/a" }), {
        code: "closed",
        message: /exit code 9$/,
    });
    await server.close();
});

test("calls fail when the server is closed", async () => {
    const server = await fake("");
    const waits = [server.until({ exists: "/a" }), server.info()].map((wait) =>
        assert.rejects(wait, { code: "closed" }),
    );
    await server.close();
    await Promise.all(waits);
    await server.close();
    await assert.rejects(server.info(), { code: "closed", message: "info: the server was closed" });
    await assert.rejects(server.until({ exists: "/a" }), {
        code: "closed",
        message: "until: the server was closed",
    });
});

test("an invalid time limit is refused", async () => {
    const server = await fake("");
    for (const timeoutMs of [-1, 0.5, NaN, Infinity, "1"]) {
        await assert.rejects(server.until({ exists: "/a" }, { timeoutMs }), {
            code: "bad_request",
            call: "until",
        });
    }
    await server.close();
});

test("the program is searched for in PATH", (t) => {
    const [command, program] = ["command", "program"].map((name) => join(folder(t), name));
    mkdirSync(command);
    mkdirSync(program);
    // Without the package for this platform: a copy of the file alone.
    const require = createRequire(import.meta.url);
    const dist = dirname(require.resolve("zk-test-server"));
    for (const name of ["binary.js", "error.js", "cli.js"]) {
        copyFileSync(join(dist, name), join(command, name));
    }
    const alone = require(join(command, "binary.js"));
    setVariable(t, "ZK_TEST_SERVER_BIN", undefined);
    setVariable(t, "PATH", `${command}:${program}`);
    // npm links the command of the package so.
    chmodSync(join(command, "cli.js"), 0o755);
    symlinkSync("cli.js", join(command, "zk-test-server"));
    assert.throws(alone.findBinary, (error) => {
        assert.equal(error.code, "no_binary");
        assert.match(
            error.message,
            /neither in the package @zk-curator\/test-server-\S+ nor in PATH/,
        );
        return true;
    });
    copyFileSync(fakeProgram, join(program, "zk-test-server"));
    assert.equal(alone.findBinary(), join(program, "zk-test-server"));
});
