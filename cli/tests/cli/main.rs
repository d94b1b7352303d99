//! The commands, as processes, against an embedded server.

mod admin;
mod contexts;
mod conventions;
mod deleting;
mod dry_runs;
#[cfg(unix)]
mod edit;
#[cfg(unix)]
mod elect;
mod ensemble;
mod exit_codes;
#[cfg(unix)]
mod files;
mod history;
#[cfg(feature = "kerberos")]
mod kerberos;
#[cfg(unix)]
mod lock;
#[cfg(unix)]
mod lock_chaos;
#[cfg(unix)]
mod lock_faults;
#[cfg(unix)]
mod lock_signals;
#[cfg(unix)]
mod membership;
mod nodes;
mod persistent;
#[cfg(unix)]
mod progress;
mod recipes;
#[cfg(unix)]
mod rolling;
#[cfg(unix)]
mod running;
mod secrets;
mod shell;
#[cfg(unix)]
mod stopping;
mod streams;
mod support;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod top;
mod transcripts;
mod transfer;
mod trees;
mod unreadable;
#[cfg(all(unix, feature = "tls", feature = "web"))]
mod web;
mod who;
