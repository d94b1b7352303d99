//! placeholder
mod connector;
pub use connector::{Connector, TcpConnector, Transport};
