# The tasks of a contributor; `just` lists them. CI runs .ci/run, which calls the same commands.

_default:
    @just --list

# All that a change has to pass on any machine. Changes nothing.
verify: fmt-check lint doc test test-features

# Writes what can be repaired by tools.
fix:
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all

fmt-check:
    cargo fmt --all -- --check

lint:
    cargo clippy --workspace -- -D warnings
    cargo clippy --workspace --all-targets --all-features -- -D warnings

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# Every test; those that need Java are skipped without it, and say so.
test *arguments:
    cargo test --workspace {{arguments}}

# The tests of what is off by default.
test-features:
    scripts/test-features

# The same, after the installation of Apache ZooKeeper and its clients (Debian): none is skipped.
test-real *arguments:
    scripts/install-real
    ZK_CURATOR_REQUIRE_REAL=1 cargo test --workspace {{arguments}}

# Several services contend for a lock, on the embedded server.
quickstart:
    cargo run --release --example quickstart

# The same on Apache ZooKeeper.
quickstart-real:
    cargo run --release -p zk-curator-real --bin zk-real -- --exec cargo run --release --example quickstart

# Bugs that are planted in a copy of the sources, and how many seeds the simulation takes to find them.
sim-mutants *arguments:
    scripts/sim-mutants {{arguments}}

# Licences, sources and advisories of the dependencies.
deny:
    scripts/deny

# What CI runs.
ci:
    .ci/run
