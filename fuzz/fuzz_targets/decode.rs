//! See `targets/decode.rs`.
#![no_main]

use std::alloc::System;

use cap::Cap;

#[path = "../targets/decode.rs"]
mod decode;

/// A larger allocation aborts the process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

libfuzzer_sys::fuzz_target!(|input: &[u8]| decode::run(input));
