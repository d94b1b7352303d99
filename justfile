# The tasks of a contributor: `just` lists them. CI runs .ci/run, which calls the same commands.

_default:
    @just --list --unsorted

# Checks a change on any machine: format, lints, documentation, tests. Changes nothing.
verify: fmt-check lint doc test

# Applies the repairs of clippy and rustfmt.
fix:
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all

fmt-check:
    cargo fmt --all -- --check

lint:
    cargo clippy --workspace --all-targets --all-features -- -D warnings

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# Runs every test except the slow ones: `just test`, `just test --test locks mutex`.
test *arguments:
    cargo test --workspace {{arguments}}

# Runs every test, on Apache ZooKeeper and with its clients too, which it installs (Debian).
test-all *arguments:
    scripts/test-all {{arguments}}

# Runs the tests in a browser, which it installs (Debian): `just browser keyboard`.
browser *arguments:
    scripts/install-browser
    cargo test -p zk-curator-browser --test browser -- --ignored {{arguments}}

# Simulates a scenario: `just sim mutex 0..10000`, or `just sim all 0..500`.
sim scenario="all" seeds="0..500" *arguments:
    cargo run --release -p zk-curator-sim --bin zk-sim -- --scenario {{scenario}} --seeds {{seeds}} {{arguments}}

# Simulates committed code, and records the result in docs/simulated.tsv and docs/reliability.md.
reliability *arguments:
    scripts/reliability run {{arguments}}

# Plants bugs in a copy of the sources, and shows that the simulation finds each: `just mutants [--record] [NAME…]`.
mutants *arguments:
    scripts/sim-mutants {{arguments}}

# Simulates a flapping network for a number of hours.
hours hours="1000" seed="7":
    SIM_HOURS={{hours}} SIM_SEED={{seed}} cargo test --profile quick -p zk-curator-sim --test session -- --nocapture hours

# Runs queues of a million items in bounded memory.
million:
    cargo test --profile quick -p zk-curator-recipes --test million

# Runs scenarios on an Apache ZooKeeper whose servers, network and clients fail: `just chaos mutex 10m`.
chaos scenario="all" duration="30m" *arguments:
    cargo run --release -p zk-curator-real --bin zk-chaos -- --scenario {{scenario}} --duration {{duration}} {{arguments}}

# Compares a million random operations of the embedded server with Apache ZooKeeper.
differential operations="1000000" seed="1000":
    ZK_DIFFERENTIAL_OPERATIONS={{operations}} ZK_DIFFERENTIAL_SEED={{seed}} cargo test -p zk-curator-testing --test server -- --ignored --nocapture differential_real

# Runs the conformance cases whose names contain a text on Apache ZooKeeper.
conformance case="":
    CONFORMANCE={{case}} cargo test -p zk-curator-client --test client -- --ignored --nocapture conformance_real

# Feeds hostile bytes to the decoders, a client, a server, the parsers of operations, and the paths in URLs.
fuzz rounds="1000000":
    FUZZ_ROUNDS={{rounds}} cargo test --release -p zk-curator-tests --test limits fuzz
    FUZZ_ROUNDS={{rounds}} cargo test --release -p zk-curator-ops --test fuzz
    FUZZ_ROUNDS={{rounds}} cargo test --release -p zk-curator-web --test web fuzz

# Fuzzes decode, session, server, service_instance, paths, flw, history_record, history_log or history_snapshot with libFuzzer for a number of seconds. Needs cargo-fuzz.
libfuzzer target="decode" seconds="180":
    scripts/fuzz {{target}} {{seconds}}

# Compares with Curator, kazoo and Rust clients, and writes the benchmark pages: `just compare --smoke`.
compare *arguments:
    cargo compare {{arguments}}

# Measures requests, the embedded server, and writes.
bench name="ops" *arguments:
    cargo bench -p zk-curator-peers --bench {{name}} -- {{arguments}}

# Runs a command with ZK_CONNECT set to an Apache ZooKeeper of its own.
real *command:
    cargo run --release -p zk-curator-real --bin zk-real -- --exec {{command}}

# Runs an ensemble of Apache ZooKeeper, with commands on standard input that kill and pause members.
ensemble servers="3":
    cargo run --release -p zk-curator-real --bin zk-real -- --ensemble {{servers}}

# Several services contend for a lock, on the embedded server.
quickstart:
    cargo run --example quickstart

# Runs every example.
examples:
    scripts/run-examples

# Runs the tests of the services in examples/services.
services:
    scripts/test-services

# Builds the guide in target/book; its examples are tests of zk-curator-book.
book:
    cargo test -p zk-curator-book
    scripts/build-book

# Writes the table of metrics in docs/monitoring/metrics.md.
metrics:
    WRITE_METRICS=1 cargo test -p zk-curator-tests --test features the_reference_lists_the_metrics

# Reports files of a crate that depend on each other.
circles *packages:
    scripts/check-circles {{packages}}

# Counts phrases to avoid: `just prose --list src`.
prose *arguments:
    scripts/check-prose {{arguments}}

# Reports broken links, and commands that do not exist, in the documents.
links:
    scripts/check-links
    scripts/check-commands

# Checks the alert rules of docs/monitoring.
alerts:
    scripts/check-alerts

# Compares the REST interface of `zkc web` with its OpenAPI document: `just api --seed 7`.
api *arguments:
    scripts/check-api {{arguments}}

# Packs, unpacks and compiles the packages as users do, by the oldest supported compiler: `just packages --each-feature`.
packages *arguments:
    scripts/check-packages {{arguments}}

# Builds and tests the packages for Python, Node and Java.
bindings:
    scripts/package

# Fails if the version does not allow a change of the public API since the last release, or a revision: `just semver HEAD~10`.
semver *revision:
    scripts/check-semver {{revision}}

# Fails if a public signature names a type of a crate below 1.0.
surface:
    scripts/check-surface

# Fails if a type has a word of the glossary as its name, and is another thing.
glossary:
    scripts/check-glossary

# Checks licences, sources and advisories of the dependencies.
deny:
    scripts/deny

# Compares how long servers for tests take to start, with those of Curator and kazoo.
starts *arguments:
    scripts/measure-starts {{arguments}}

# Compares the readers of transaction logs with those of Apache ZooKeeper.
history *arguments:
    scripts/measure-history {{arguments}}

# Measures the web explorer against its targets, and kazoo for comparison.
web *arguments:
    scripts/measure-web {{arguments}}

# Measures how long users and contributors wait for builds.
builds *arguments:
    scripts/measure-builds {{arguments}}

# Judges a change, as CI does for each.
gate:
    .ci/run

# Proves the rest, and records it in docs/nights.tsv: hours. `just night --continue` skips what has passed for this commit.
night *arguments:
    scripts/night {{arguments}}

# Runs the tests in unfriendly surroundings: `just steady --list`, `just steady nohup busy`.
steady *arms:
    scripts/steady {{arms}}
