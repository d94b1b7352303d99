//! Service discovery, by subject.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod gate;
mod json;
mod local_address;
mod payload;
mod provider;
mod query;
mod registration;
mod registration_cancel;
mod registration_faults;
mod registration_updates;
mod rest;
mod shutdown;
mod support;
mod tower;
mod user_code;
