//! See `targets/session.rs`.
#![no_main]

use std::alloc::System;

use cap::Cap;

#[path = "../targets/session.rs"]
mod session;

/// A larger allocation aborts the process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, 256 << 20);

libfuzzer_sys::fuzz_target!(|input: &[u8]| session::run(input));
