//! A web explorer of ZooKeeper, as an [`axum::Router`].
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use zk_curator::CuratorFramework;
//! use zk_curator_web::{WebOptions, router};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let zk = CuratorFramework::builder().connect_string("zk1:2181,zk2:2181").build()?;
//! zk.start().await?;
//! let explorer = router(&zk, WebOptions::new());
//! # let _ = explorer.into_make_service_with_connect_info::<SocketAddr>();
//! # Ok(()) }
//! ```
//!
//! With axum's features `http1` and `tokio`, `axum::serve` serves it on a listener; the address of
//! the listener should be a loopback one, unless [users](WebOptions::users) have to sign in. A
//! service can also mount it below its own pages: see [`WebOptions::base_path`].
//!
//! # Pages
//!
//! | address | page |
//! |---|---|
//! | `/tree/a/b` | the children of `/a/b`: 200 at a time, sorted and filtered |
//! | `/node/a/b` | its data, stat, rights and quota; with [`write`](WebOptions::write), forms that change it |
//! | `/raw/a/b` | its data as a download |
//! | `/recipes/a` | the locks, elections, queues and other recipes below `/a`, the longest wait first |
//! | `/why/a/b` | the recipe at `/a/b`: who holds it, who waits, and why nothing moves |
//! | `/services/a` | the services of Curator's discovery below `/a`, with their instances |
//! | `/ensemble` | the servers, charts of the last 15 minutes, findings, and sessions |
//! | `/search/a/b` | a search by name or content at `/a/b` and below it |
//! | `/changes/a/b` | the changes below `/a/b` since the page was opened |
//! | `/history/a/b` | with [`history`](WebOptions::history): the changes in the logs of a server, who deleted the node, the node as it was, and with [`write`](WebOptions::write) undelete |
//! | `/data/a/b` | backups, comparisons; with [`write`](WebOptions::write), restores |
//! | `/help` | keys, signs and limits |
//! | `/login` | the form for a token, if there are [users](WebOptions::users) |
//!
//! The page of a node that belongs to a recipe has a card, which says what the node is. The
//! sessions of contenders are those that the servers tell: see [`WebOptions::probe`].
//!
//! Pages work without script. With it they are live: a page shows a change within a second, and
//! says if changes may be missing. All viewers of a path share one watch on the servers and the
//! reads after a change.
//!
//! # REST
//!
//! `GET`, `PUT`, `POST` and `DELETE` of `/api/v1/node/…`, `GET` of `/api/v1/children/…`,
//! `/api/v1/why/…`, `/api/v1/recipes/…`, `/api/v1/services/…`, `/api/v1/backup/…` and
//! `/api/v1/diff`, and the events of `/api/v1/watch/…` and `/api/v1/changes/…`. The version of a
//! node is its `ETag`. `PUT` and `DELETE` need `If-Match`, and `POST`, which creates a node, needs
//! `If-None-Match: *`. `GET` of `/api/v1/ensemble` samples the servers, and `GET` of
//! `/api/v1/search/…` searches. `GET` of `/api/v1/history/…` reads the logs of a server. Errors are
//! problems of RFC 9457 with the kinds of the exit codes of `zkc`. `/api/v1/openapi.json` describes
//! the interface.
//!
//! # Security
//!
//! * An explorer reads only, unless [`write`](WebOptions::write) is set.
//! * The `Host` of a request has to be known, because of DNS rebinding.
//! * Other sites may link to pages, and nothing else. A form needs a token of the session.
//! * Pages load nothing from elsewhere and contain no script. Data of nodes are text or a download.
//! * Data of [secrets](Redaction) are hidden. Data of the past are shown if everyone could read them.
//! * Requests, sizes, streams, sessions and attempts to sign in have [limits](Limits).
//! * Each change leaves an event of `tracing` with the target `zk_curator_web::audit`.
//!
//! The rights in ZooKeeper are those of the framework's session, for all users, or those of each
//! user with [`impersonate`](WebOptions::impersonate). Every page shows the identity.

mod api;
mod body;
mod changes;
mod destinations;
mod ensemble;
mod fields;
mod guard;
mod history;
mod impersonation;
mod journal;
mod live;
mod options;
mod pages;
pub mod paths;
mod problem;
mod reads;
mod routes;
mod search;
mod security;
mod show;
mod state;
mod static_files;
mod transfer;
mod visit;

pub use impersonation::Impersonation;
pub use options::{Limits, OptionsError, WebOptions};
pub use routes::router;
pub use security::{Network, NetworkError, NewToken, Redaction, RedactionError, Users, UsersError};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
