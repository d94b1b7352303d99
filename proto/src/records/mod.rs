//! The bodies of requests and responses, one family per file.
//!
//! Field names follow `zookeeper.jute`. Data that may be Java's `null` is `Option<Bytes>`.

mod acl;
mod auth;
mod connect;
mod create;
mod header;
mod multi;
mod read;
mod reconfig;
mod stat;
mod watch;
mod write;

pub use acl::{Acl, AclResponse, GetAclRequest, Permissions, SetAclRequest};
pub use auth::{AuthPacket, ClientInfo, SaslToken};
pub use connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN};
pub use create::{Create2Response, CreateMode, CreateRequest, CreateTtlRequest};
pub use header::{ReplyHeader, RequestHeader};
pub use multi::{MultiOp, MultiResult, ReadOp, ReadResult};
pub use read::{
    Children2Response, DataResponse, ExistsRequest, GetAllChildrenNumberRequest,
    GetChildrenRequest, GetDataRequest, GetEphemeralsRequest, SyncRequest,
};
pub use reconfig::ReconfigRequest;
pub use stat::Stat;
pub use watch::{
    AddWatchMode, AddWatchRequest, EventType, KeeperState, SetWatches, SetWatches2, WatcherEvent,
    WatcherType, WatchesRequest,
};
pub use write::{CheckVersionRequest, DeleteRequest, SetDataRequest};

/// Declares a record whose wire form is its fields in order.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        #[expect(clippy::exhaustive_structs, reason = "the wire form is fixed by the protocol")]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl crate::Record for $name {
            const MIN_SIZE: usize = 0 $(+ <$type as crate::Record>::MIN_SIZE)*;

            #[inline]
            fn encode(&self, out: &mut crate::Encoder) {
                $(crate::Record::encode(&self.$field, out);)*
            }

            #[inline]
            fn decode(
                input: &mut crate::Decoder,
                _what: &'static str,
            ) -> Result<Self, crate::DecodeError> {
                Ok(Self {
                    $($field: crate::Record::decode(
                        input,
                        concat!(stringify!($name), ".", stringify!($field)),
                    )?,)*
                })
            }
        }
    };
}
use record;
