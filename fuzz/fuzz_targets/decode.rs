//! See `targets/decode.rs`.
#![no_main]

#[path = "../targets/decode.rs"]
mod decode;

libfuzzer_sys::fuzz_target!(|input: &[u8]| decode::run(input));
