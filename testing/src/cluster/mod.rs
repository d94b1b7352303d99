//! [`TestCluster`]: an ensemble of embedded servers.

mod builder;
mod handle;
mod lag;
mod probe;

pub use builder::TestClusterBuilder;
pub use handle::TestCluster;
pub use lag::LagGuard;
pub use probe::{ClusterProbe, MemberProbe, MemberRole};
