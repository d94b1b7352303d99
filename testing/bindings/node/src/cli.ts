#!/usr/bin/env node
// Runs the program of this package: `npx zk-test-server --help`.
import { spawn, type ChildProcess } from "node:child_process";
import { constants } from "node:os";

import { findBinary } from "./binary";

try {
    const parameters = process.argv.slice(2);
    // Before the program can say that it listens. The handlers run after the start below.
    let child: ChildProcess;
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
        process.on(signal, () => child.kill(signal));
    }
    // The end of this pipe ends the program, even if this process is killed.
    const program = spawn(findBinary(), [...parameters, "--until-eof"], {
        stdio: ["pipe", "inherit", "inherit"],
    });
    child = program;
    program.stdin.on("error", () => undefined);
    if (parameters.includes("--until-eof")) {
        process.stdin.pipe(program.stdin);
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
