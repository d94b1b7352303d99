//! See `targets/session.rs`.
#![no_main]

#[path = "../targets/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|input: &[u8]| session::run(input));
