#!/usr/bin/env node
// A program that does not do what `zk-test-server` does. FAKE names the fault.
import { createServer } from "node:net";
import { createInterface } from "node:readline";

const fault = process.env.FAKE;

if (fault === "ends") {
    console.error("zk-test-server: port 1 is in use");
    process.exit(2);
}
if (fault === "is killed") {
    process.kill(process.pid, "SIGKILL");
}
if (fault === "warns") {
    console.error("zk-test-server: a warning");
}
if (fault !== "silent") {
    const port = createServer(serve).listen(0, "127.0.0.1", () => {
        console.log("listening on 127.0.0.1:1");
        console.log(`control on 127.0.0.1:${port.address().port}`);
    });
}
// Ends at the end of its input, as the program does.
process.stdin.resume().on("end", () => process.exit(0));

function serve(socket) {
    socket.on("error", () => undefined);
    createInterface({ input: socket, crlfDelay: Infinity }).on("line", (line) => {
        const { id, call, version, token } = JSON.parse(line);
        if (call === "hello") {
            if (fault === "old") {
                const message = "hello: version 1 is not supported, only 0";
                socket.write(
                    `${JSON.stringify({ id, error: { code: "unsupported_version", message } })}\n`,
                );
                return;
            }
            const right =
                version === 1 &&
                token === process.env.ZK_TEST_SERVER_TOKEN &&
                /^[0-9a-f]{32}$/.test(token);
            const ok = {
                version: 1,
                server: "0.0.0",
                kind: "server",
                connect_string: right ? "127.0.0.1:1" : "wrong",
            };
            // In pieces, and with a field that is not known.
            const text = `${JSON.stringify({ id, ok: { ...ok, later: true } })}\n`;
            socket.write(text.slice(0, 10), () => setImmediate(() => socket.write(text.slice(10))));
        } else if (fault === "garbage") {
            socket.write("{not JSON\n");
        } else if (fault === "unreadable") {
            const error = { code: "bad_request", message: "the line is longer than 1 MiB" };
            if (socket.writable) {
                socket.end(`${JSON.stringify({ id: null, error })}\n`);
            }
        } else if (fault === "dies") {
            process.exit(9);
        } else if (fault === "closes") {
            socket.end();
        } else if (fault === "echo") {
            // The message is the request.
            const { id: _, ...request } = JSON.parse(line);
            socket.write(
                `${JSON.stringify({ id, error: { code: "echo", message: JSON.stringify(request) } })}\n`,
            );
        } else if (fault === "later code") {
            socket.write(
                `${JSON.stringify({ id, error: { code: "out_of_coffee", message: "info: no coffee" } })}\n`,
            );
        }
    });
}
