//! [`TestServer`]: the handle to an embedded server, its builder, and its probe.

mod builder;
mod handle;
mod has_session;
mod probe;

pub use builder::TestServerBuilder;
pub use handle::TestServer;
pub use has_session::HasSession;
pub use probe::{Probe, ProbeSession, ProbeWatch};
