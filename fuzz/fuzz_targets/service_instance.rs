//! See `targets/service_instance.rs`.
#![no_main]

use std::alloc::System;

use cap::Cap;

#[path = "../targets/service_instance.rs"]
mod service_instance;

/// More than this ends the process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

libfuzzer_sys::fuzz_target!(|input: &[u8]| service_instance::run(input));
