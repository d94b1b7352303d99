export { findBinary } from "./binary";
export { type Condition } from "./condition";
export { type TimeLimit } from "./connection";
export { TestServerError, type ErrorCode } from "./error";
export { testCluster, testServer, type Test } from "./node-test";
export { Probe, type NodeState, type SessionState, type WatchState } from "./probe";
export { type LaunchOptions } from "./process";
export { Rule, type Operation, type RuleOptions, type Verdict } from "./rule";
export {
    ControlledServer,
    Lag,
    TestCluster,
    TestServer,
    type Info,
    type JournalEntry,
    type MemberState,
} from "./server";
export { sessionId, type Session } from "./session";
