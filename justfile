# The tasks of a contributor; `just` lists them. CI runs .ci/run, which calls the same commands.

_default:
    @just --list

# All that a change has to pass on any machine. Changes nothing.
verify: fmt-check lint doc test

# Writes what can be repaired by tools.
fix:
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all

fmt-check:
    cargo fmt --all -- --check

lint:
    cargo clippy --workspace --all-targets --all-features -- -D warnings

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# Every test but the slow ones.
test *arguments:
    cargo test --workspace {{arguments}}

# Every test; installs Apache ZooKeeper and its clients (Debian).
test-all:
    scripts/test-all

# How long users and contributors wait.
measure-builds:
    scripts/measure-builds

# Several services contend for a lock, on the embedded server.
quickstart:
    cargo run --example quickstart

# The same on Apache ZooKeeper.
quickstart-real:
    cargo run --release -p zk-curator-real --bin zk-real -- --exec cargo run --example quickstart

# Bugs that are planted in a copy of the sources, and how many seeds the simulation takes to find them.
sim-mutants *arguments:
    scripts/sim-mutants {{arguments}}

# Licences, sources and advisories of the dependencies.
deny:
    scripts/deny

# What CI runs.
ci:
    .ci/run
