// The requests of the package, and that it has everything that the page about the protocol lists.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { TestCluster } from "zk-test-server";

const file = (name) => fileURLToPath(new URL(name, import.meta.url));
const page = readFileSync(file("PROTOCOL.md"), "utf8");
const declarations = join(dirname(createRequire(import.meta.url).resolve("zk-test-server")));

/** Each method, and its request without parameters that are left out. */
const REQUESTS = [
    [(s) => s.info(), { call: "info" }],
    [(s) => s.stop(1), { call: "stop", member: 1 }],
    [(s) => s.start(), { call: "start" }],
    [(s) => s.restart(0), { call: "restart", member: 0 }],
    [(s) => s.pause(), { call: "pause" }],
    [(s) => s.resume(2), { call: "resume", member: 2 }],
    [(s) => s.partition(1), { call: "partition", member: 1 }],
    [(s) => s.split([0], [1, 2]), { call: "split", sides: [[0], [1, 2]] }],
    [(s) => s.heal(), { call: "heal" }],
    [(s) => s.setReadOnly(true, 1), { call: "set_read_only", member: 1, read_only: true }],
    [(s) => s.expire(31n), { call: "expire", session: "0x1f" }],
    [(s) => s.expire(-1n), { call: "expire", session: "0xffffffffffffffff" }],
    [(s) => s.disconnect(), { call: "disconnect" }],
    [(s) => s.disconnect("0x1F"), { call: "disconnect", session: "0x1f" }],
    [(s) => s.lag(1), { call: "lag", member: 1 }],
    [(s) => s.lag(1, { delayMs: 5 }), { call: "lag", member: 1, delay_ms: 5 }],
    [(s) => s.changeLeader(), { call: "change_leader" }],
    [(s) => s.changeLeader(2), { call: "change_leader", member: 2 }],
    [(s) => s.advance(7), { call: "advance", by_ms: 7 }],
    [(s) => s.shiftWallClock(-7, 0), { call: "shift_wall_clock", member: 0, by_ms: -7 }],
    [(s) => s.setVersion("/a", 3), { call: "set_version", path: "/a", version: 3 }],
    [(s) => s.setSequence("/a", 3), { call: "set_sequence", path: "/a", next: 3 }],
    [(s) => s.remove("/a"), { call: "remove", path: "/a" }],
    [(s) => s.reapContainers(), { call: "reap_containers" }],
    [(s) => s.addRule({ verdict: "loseReply" }), { call: "add_rule", verdict: "lose_reply" }],
    [
        (s) =>
            s.addRule({
                name: "n",
                operation: "getAllChildrenNumber",
                path: "/a/*",
                under: "/b",
                session: { client_id: "1f" },
                member: 1,
                after: 2,
                times: 3,
                verdict: { delayMs: 4 },
            }),
        {
            call: "add_rule",
            name: "n",
            operation: "get_all_children_number",
            path: "/a/*",
            under: "/b",
            session: "0x1f",
            member: 1,
            after: 2,
            times: 3,
            verdict: { delay_ms: 4 },
        },
    ],
    [
        (s) =>
            s.addRule({ operation: ["create", "whoAmI"], verdict: { refuse: "connectionLoss" } }),
        {
            call: "add_rule",
            operation: ["create", "who_am_i"],
            verdict: { refuse: "connection_loss" },
        },
    ],
    [
        (s) => s.addRule({ verdict: { refuse: -112 } }),
        { call: "add_rule", verdict: { refuse: -112 } },
    ],
    [(s) => s.removeRules(), { call: "remove_rules" }],
    [(s) => s.probe(1), { call: "probe", member: 1 }],
    [(s) => s.journal(), { call: "journal" }],
    [(s) => s.reset(), { call: "reset" }],
    ...[
        [{ exists: "/a" }, { exists: "/a" }],
        [{ absent: "/a" }, { absent: "/a" }],
        [
            { children: "/a", count: 2 },
            { children: "/a", count: 2 },
        ],
        [
            { watches: "/a", atLeast: 1 },
            { watches: "/a", at_least: 1 },
        ],
        [{ sessions: 2 }, { sessions: 2 }],
        [{ sessionEnded: 31n }, { session_ended: "0x1f" }],
        [
            { sessionConnected: { getSessionId: () => Buffer.from("000000000000001f", "hex") } },
            { session_connected: "0x1f" },
        ],
        [{ sessionDisconnected: "0x1f" }, { session_disconnected: "0x1f" }],
        [
            { rule: "lost", hits: 1 },
            { rule: "lost", hits: 1 },
        ],
        [{ leader: false }, { leader: false }],
    ].map(([given, condition]) => [
        (s) => s.until(given),
        { call: "until", condition, timeout_ms: 30_000 },
    ]),
];
/** Calls that the other methods make: see `faults.test.mjs`. */
const OTHER_CALLS = ["hello", "rule", "remove_rule", "end_lag"];

test("requests have the form of the protocol", async () => {
    process.env.FAKE = "echo";
    const cluster = await TestCluster.launch(3, { binary: file("fake-program.mjs") });
    for (const [method, request] of REQUESTS) {
        const error = await method(cluster).then(
            () => assert.fail(),
            (reason) => reason,
        );
        assert.equal(error.code, "echo", error.stack);
        assert.deepEqual(JSON.parse(error.message.slice(error.message.indexOf("{"))), request);
    }
    await cluster.close();
});

/** Returns the names in the first column of the table that has this heading. */
function column(heading) {
    const [, rows] = page.split(`\n| ${heading} |`);
    const cells = rows
        .split("\n\n")[0]
        .split("\n")
        .slice(2)
        .map((row) => row.split(" | ")[0]);
    return cells.flatMap((cell) => [...cell.matchAll(/`(.+?)`/g)].map(([, name]) => name));
}

/** Returns the names in quotation marks of a type, as the protocol spells them. */
function names(module, type) {
    const text = readFileSync(join(declarations, `${module}.d.ts`), "utf8");
    const [, declaration] = new RegExp(`export type ${type} = ([^;]*(?:\\{[^}]*\\}[^;]*)*);`).exec(
        text,
    );
    return [...declaration.matchAll(/"(\w+)"/g)].map(([, name]) => snake(name));
}

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

test("every call of the protocol has a method", () => {
    const calls = new Set([...REQUESTS.map(([, { call }]) => call), ...OTHER_CALLS]);
    assert.deepEqual([...calls].sort(), column("Call").sort());
});

test("every parameter of a rule is known", () => {
    const known = new Set(
        REQUESTS.filter(([, { call }]) => call === "add_rule").flatMap(([, request]) =>
            Object.keys(request),
        ),
    );
    known.delete("call");
    const rows = page.split("\n| Parameter |")[1].split("\n\n")[0].split("\n").slice(2);
    assert.deepEqual([...known].sort(), rows.map((row) => /`(\w+)`/.exec(row)[1]).sort());
    const operations = rows.find((row) => row.startsWith("| `operation`")).split(" | ")[1];
    assert.deepEqual(
        names("rule", "Operation").sort(),
        [...operations.matchAll(/`(\w+)`/g)].map(([, name]) => name).sort(),
    );
});

test("every verdict, condition and error code is known", () => {
    const verdicts = column("Verdict")
        .map((text) => JSON.parse(text))
        .filter((verdict) => typeof verdict === "string");
    assert.deepEqual(names("rule", "Verdict").sort(), verdicts.sort());
    const conditions = column("Condition").map((text) => Object.keys(JSON.parse(text)).join());
    const known = REQUESTS.filter(([, { call }]) => call === "until").map(([, { condition }]) =>
        Object.keys(condition).join(),
    );
    assert.deepEqual([...new Set(known)].sort(), [...new Set(conditions)].sort());
    const own = ["no_binary", "not_started", "closed", "no_response"];
    assert.deepEqual(names("error", "ErrorCode").sort(), [...column("Error code"), ...own].sort());
});

test("the packages have licences, and need no others", () => {
    const packages = [
        "zk-test-server",
        `@zk-curator/test-server-${process.platform}-${process.arch}`,
    ];
    for (const name of packages) {
        const folder = file(`node_modules/${name}`);
        const { dependencies, devDependencies, scripts } = JSON.parse(
            readFileSync(join(folder, "package.json"), "utf8"),
        );
        assert.deepEqual(
            [dependencies, devDependencies, scripts],
            [undefined, undefined, undefined],
        );
        assert(
            ["LICENSE-APACHE", "LICENSE-MIT", "README.md"].every((name) =>
                existsSync(join(folder, name)),
            ),
        );
        assert(!existsSync(join(folder, "src")));
    }
});
