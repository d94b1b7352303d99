//! The fuzz targets with inputs that are made without libFuzzer, for as long as an ordinary test
//! may take.

#[path = "../../fuzz/targets/decode.rs"]
mod decode;
#[path = "../../fuzz/targets/mutation.rs"]
mod mutation;
#[path = "../../fuzz/targets/server.rs"]
mod server;
#[path = "../../fuzz/targets/service_instance.rs"]
mod service_instance;
#[path = "../../fuzz/targets/session.rs"]
mod session;

use zk_curator_tests::size;

use crate::{ALLOCATOR, ALONE};

/// Runs a target with at most `memory` bytes of memory.
fn fuzz(name: &str, inputs: usize, memory: usize, target: fn(&[u8])) {
    let _alone = ALONE.blocking_lock();
    ALLOCATOR.set_limit(memory).expect("room");
    mutation::for_each_input(name, inputs as u64, target);
    ALLOCATOR.set_limit(usize::MAX).expect("room");
}

#[test]
fn no_bytes_make_a_decoder_panic_or_take_memory() {
    fuzz("decode", size(200_000, 1_000_000), usize::MAX, decode::run);
}

#[test]
fn no_bytes_make_the_reader_of_instances_panic_or_take_memory() {
    fuzz("service_instance", size(20_000, 100_000), usize::MAX, service_instance::run);
}

#[test]
fn no_server_makes_a_client_panic_or_hang() {
    fuzz("session", size(2000, 10_000), 256 << 20, session::run);
}

#[test]
fn hostile_connections_do_not_disturb_other_sessions() {
    fuzz("server", size(500, 1500), 128 << 20, server::run);
}
