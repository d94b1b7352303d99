//! The fuzz target of the paths in URLs with inputs that are made without libFuzzer.

#[path = "../../../fuzz/targets/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/targets/paths.rs"]
mod paths;

#[test]
fn every_path_is_read_from_its_url() {
    mutation::for_each_input("paths", 20_000, paths::run);
}
