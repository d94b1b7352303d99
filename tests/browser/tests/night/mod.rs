//! Tests that only the night runs.

mod harness;
