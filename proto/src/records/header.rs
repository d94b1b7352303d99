use super::record;

record! {
    /// The header of every request except [`super::ConnectRequest`].
    RequestHeader {
        /// The number that the client chooses and the response repeats. Negative ones are reserved
        /// ([`crate::XID_PING`], …).
        xid: i32,
        /// The [`crate::OpCode`] as a number.
        opcode: i32,
    }
}

record! {
    /// The header of every response except [`super::ConnectResponse`], and of every watch event.
    ReplyHeader {
        /// The xid of the request, or [`crate::XID_NOTIFICATION`].
        xid: i32,
        /// The last transaction that the server had applied.
        zxid: i64,
        /// Zero, or an [`crate::ErrorCode`] as a number. After an error there is no body.
        err: i32,
    }
}
