//! See `targets/server.rs`.
#![no_main]

#[path = "../../testing/tests/common/mod.rs"]
mod common;
#[path = "../targets/server.rs"]
mod server;

libfuzzer_sys::fuzz_target!(|input: &[u8]| server::run(input));
