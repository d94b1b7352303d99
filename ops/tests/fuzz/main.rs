//! The fuzz targets of the parsers with inputs that are made without libFuzzer.

mod targets;

use std::alloc::System;

use cap::Cap;

/// A larger allocation aborts the process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
