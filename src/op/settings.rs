//! The settings that several builders have, each written once.

/// Writes the settings of a node that is created. The fields are those of the builder, or of its
/// field `$of`.
macro_rules! node_settings {
    ($($of:ident)?) => {
        /// Sets the kind of node. Default:
        /// [`CreateMode::Persistent`](crate::CreateMode::Persistent).
        pub const fn mode(mut self, mode: crate::CreateMode) -> Self {
            self$(.$of)?.mode = mode;
            self
        }

        /// Sets the time to live, for the modes that have one: from 1 ms to 2^40 - 1 ms. The
        /// servers must have `extendedTypesEnabled`. Default: none.
        pub const fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self$(.$of)?.ttl = Some(ttl);
            self
        }

        /// Sets the access control list. Default: that of the
        /// [provider](crate::acl::AclProvider).
        pub fn acl(mut self, acl: Vec<crate::Acl>) -> Self {
            self$(.$of)?.acl = Some(acl);
            self
        }
    };
}
pub(crate) use node_settings;

/// Writes the settings that say whether the data are compressed.
macro_rules! compression_settings {
    ($($of:ident)?) => {
        /// Stores the data compressed. Default: as the
        /// [framework](crate::CuratorFrameworkBuilder::enable_compression) does.
        pub const fn compressed(mut self) -> Self {
            self$(.$of)?.compressed = Some(true);
            self
        }

        /// Stores the data unchanged, even where the framework compresses.
        pub const fn uncompressed(mut self) -> Self {
            self$(.$of)?.compressed = Some(false);
            self
        }
    };
}
pub(crate) use compression_settings;

/// Writes the setting of the version that the data of a node must have.
macro_rules! version_setting {
    () => {
        /// Sets the version that the data must have; -1 for any, as in Java. Default: any.
        pub fn version(mut self, version: impl Into<crate::Version>) -> Self {
            self.version = version.into();
            self
        }
    };
}
pub(crate) use version_setting;
