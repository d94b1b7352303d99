//! The programs of this package, run as processes.
#![cfg(unix)]

mod command_test_server;
#[path = "../../tests/common/mod.rs"]
mod common;
mod control_calls;
mod control_messages;
mod control_rules;
mod fault_proxy;
mod interop_clients;
mod interop_guide;
mod program;
mod protocol_page;
mod scenarios;
