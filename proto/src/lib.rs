//! The ZooKeeper wire protocol: records, opcodes, error codes and framing, in both directions.
//!
//! The crate has no I/O, no async and no clock: it converts bytes to values, and values to bytes.
//! The client and the embedded test server share it, so every record has an encoder and a decoder.
//! A codec that is wrong in both directions would agree with itself. Therefore `tests/` replays
//! frames captured from Apache ZooKeeper's own client and server.
//!
//! * [`frame`]: the four-byte length prefix around everything on the wire.
//! * [`Encoder`] and [`Decoder`]: the primitive types ("jute"). The decoder checks every length
//!   against the rest of the frame before it allocates, so a frame can never make the process
//!   allocate more than a small multiple of its own size.
//! * [`OpCode`] and [`ErrorCode`]: the two number spaces.
//! * [`records`]: the bodies. [`Request`] and [`Response`] are the sums over all of them.
//!
//! ```
//! use zk_curator_proto::{Decoder, Encoder, OpCode, Request, records::GetDataRequest};
//!
//! let request = Request::GetData(GetDataRequest { path: "/a".into(), watch: true });
//! let mut body = Encoder::new();
//! request.encode_body(&mut body);
//! let back = Request::decode_body(OpCode::GetData, &mut Decoder::new(body.finish()))?;
//! assert_eq!(back, request);
//! # Ok::<(), zk_curator_proto::DecodeError>(())
//! ```

mod codec;
mod error_code;
pub mod frame;
mod opcode;
pub mod records;
mod request;
mod response;
mod time;

pub use codec::{DecodeError, Decoder, Encoder, Record};
pub use error_code::ErrorCode;
pub use opcode::OpCode;
pub use request::Request;
pub use response::Response;
pub use time::{bounded, millis};

/// Largest frame that Apache ZooKeeper accepts by default (`jute.maxbuffer`), in bytes.
pub const DEFAULT_MAX_FRAME: usize = 0xf_ffff;

/// The xid of watch notifications, which are not responses to a request.
pub const XID_NOTIFICATION: i32 = -1;
/// The xid of pings.
pub const XID_PING: i32 = -2;
/// The xid of authentication packets.
pub const XID_AUTH: i32 = -4;
/// The xid of `setWatches` and `setWatches2`. Several may be in flight; their responses come in
/// order.
pub const XID_SET_WATCHES: i32 = -8;

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
