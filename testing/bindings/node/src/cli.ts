#!/usr/bin/env node
// Runs the program of this package: `npx zk-test-server --help`.
import { spawn } from "node:child_process";
import { constants } from "node:os";

import { findBinary } from "./binary";

try {
    const parameters = process.argv.slice(2);
    // The end of this pipe ends the program, even if this process is killed.
    const child = spawn(findBinary(), [...parameters, "--until-eof"], {
        stdio: ["pipe", "inherit", "inherit"],
    });
    child.stdin.on("error", () => undefined);
    if (parameters.includes("--until-eof")) {
        process.stdin.pipe(child.stdin);
    }
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
        process.on(signal, () => child.kill(signal));
    }
    child.on("error", fail);
    child.on("exit", (code, signal) =>
        process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal]),
    );
} catch (error) {
    fail(error as Error);
}

function fail(error: Error): never {
    console.error(`zk-test-server: ${error.message}`);
    process.exit(2);
}
