//! The fuzz target `server` with inputs that are made without libFuzzer, for as long as an ordinary test may take.

mod common;
#[path = "../../fuzz/targets/mutation.rs"]
mod mutation;
#[path = "../../fuzz/targets/server.rs"]
mod server;

#[test]
fn whatever_connections_send_a_server_goes_on_and_other_sessions_do_not_notice() {
    mutation::for_each_input("server", 1500, server::run);
}
