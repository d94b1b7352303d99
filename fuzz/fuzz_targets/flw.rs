//! See `targets/flw.rs`.
#![no_main]

#[path = "../targets/flw.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| target::run(input));
