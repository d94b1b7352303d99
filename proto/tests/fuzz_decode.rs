//! The fuzz target `decode` with inputs that are made without libFuzzer, for as long as an ordinary test may take.

#[path = "../../fuzz/targets/decode.rs"]
mod decode;
#[path = "../../fuzz/targets/mutation.rs"]
mod mutation;

#[test]
fn no_bytes_make_a_decoder_panic_or_take_memory() {
    mutation::for_each_input("decode", 1_000_000, decode::run);
}
