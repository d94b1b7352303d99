//! Tests of the harness.

mod accessibility;
mod console;
mod ends;
mod files;
mod keyboard;
mod live;
mod look;
mod pages;
mod waits;
