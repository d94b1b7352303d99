//! The fuzz target `session` with inputs that are made without libFuzzer, for as long as an ordinary test may take.

#[path = "../../fuzz/targets/mutation.rs"]
mod mutation;
#[path = "../../fuzz/targets/session.rs"]
mod session;

#[test]
fn no_server_makes_a_client_panic_or_hang() {
    mutation::for_each_input("session", 10_000, session::run);
}
