//! See `targets/history_record.rs`.
#![no_main]

use std::alloc::System;

use cap::Cap;

#[path = "../targets/history_record.rs"]
mod history_record;

/// A larger allocation aborts the process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

libfuzzer_sys::fuzz_target!(|input: &[u8]| history_record::run(input));
