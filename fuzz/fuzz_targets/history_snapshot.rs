//! See `targets/history_snapshot.rs`.
#![no_main]

use std::alloc::System;

use cap::Cap;

#[path = "../targets/history_snapshot.rs"]
mod history_snapshot;

/// A larger allocation aborts the process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

libfuzzer_sys::fuzz_target!(|input: &[u8]| history_snapshot::run(input));
