use super::record;

record! {
    /// In front of every request but [`super::ConnectRequest`].
    RequestHeader {
        /// Chosen by the client, repeated in the answer. Negative ones are reserved ([`crate::XID_PING`], …).
        xid: i32,
        /// The [`crate::OpCode`] as a number.
        opcode: i32,
    }
}

record! {
    /// In front of every answer but [`super::ConnectResponse`], and of every watch event.
    ReplyHeader {
        /// The xid of the request, or [`crate::XID_NOTIFICATION`].
        xid: i32,
        /// The last transaction the server had applied.
        zxid: i64,
        /// Zero, or an [`crate::ErrorCode`] as a number; then no body follows.
        err: i32,
    }
}
