//! See `targets/server.rs`.
#![no_main]

use std::alloc::System;

use cap::Cap;

#[path = "../../testing/tests/common/mod.rs"]
mod common;
#[path = "../targets/server.rs"]
mod server;

/// A larger allocation aborts the process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, 128 << 20);

libfuzzer_sys::fuzz_target!(|input: &[u8]| server::run(input));
