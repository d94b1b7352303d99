//! The explorer, as a router without a listener.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod audit;
mod changes;
mod data;
mod ensemble;
mod fuzz;
mod history;
mod hostile;
mod impersonate;
mod journal;
mod live;
mod login;
mod pages;
mod recipes;
mod rest;
mod schema;
mod search;
mod security;
mod services;
mod support;
mod why;
