use crate::records::{
    AclResponse, Children2Response, ClientInfo, Create2Response, DataResponse, MultiResult,
    ReadResult, SaslToken, Stat,
};
use crate::{DecodeError, Decoder, Encoder, OpCode, Record};

/// The body of a successful response, without its header.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Response to `ping`, `closeSession`, `auth`, `delete`, `setWatches`, `setWatches2`,
    /// `removeWatches` and `checkWatches`.
    Empty,
    /// Response to `create` and `sync`.
    Path(String),
    /// Response to `create2`, `createContainer` and `createTTL`.
    Created(Create2Response),
    /// Response to `exists`, `setData` and `setACL`.
    Stat(Stat),
    /// Response to `getData` and `reconfig`.
    Data(DataResponse),
    /// Response to `getChildren`: names; to `getEphemerals`: paths.
    Children(Vec<String>),
    /// Response to `getChildren2`.
    Children2(Children2Response),
    /// Response to `multi`, including a failed one.
    Multi(Vec<MultiResult>),
    /// Response to `multiRead`.
    ReadResults(Vec<ReadResult>),
    /// Response to `getACL`.
    Acl(AclResponse),
    /// Response to `addWatch`: zero. An empty body is decoded as zero.
    Code(i32),
    /// Response to `getAllChildrenNumber`.
    Number(i32),
    /// Response to `whoAmI`.
    Identities(Vec<ClientInfo>),
    /// Response to `sasl`.
    Sasl(SaslToken),
}

impl Response {
    /// Appends the body.
    pub fn encode_body(&self, out: &mut Encoder) {
        match self {
            Self::Empty => {}
            Self::Path(path) => out.string(path),
            Self::Created(body) => body.encode(out),
            Self::Stat(stat) => stat.encode(out),
            Self::Data(body) => body.encode(out),
            Self::Children(names) => out.vector(names),
            Self::Children2(body) => body.encode(out),
            Self::Multi(results) => MultiResult::encode_all(results, out),
            Self::ReadResults(results) => ReadResult::encode_all(results, out),
            Self::Acl(body) => body.encode(out),
            Self::Code(number) | Self::Number(number) => out.i32(*number),
            Self::Identities(identities) => out.vector(identities),
            Self::Sasl(body) => body.encode(out),
        }
    }

    /// Reads the body of the response to a request with this opcode.
    ///
    /// # Errors
    /// A [`DecodeError`]; [`DecodeError::InvalidValue`] of `opcode` if this crate does not know the
    /// body.
    pub fn decode_body(opcode: OpCode, input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match opcode {
            OpCode::Ping
            | OpCode::CloseSession
            | OpCode::Auth
            | OpCode::Delete
            | OpCode::RemoveWatches
            | OpCode::CheckWatches
            | OpCode::SetWatches
            | OpCode::SetWatches2 => Self::Empty,
            OpCode::Create | OpCode::Sync => Self::Path(input.string("path")?),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::Created(Record::decode(input, "create2")?)
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => {
                Self::Stat(Record::decode(input, "stat")?)
            }
            OpCode::GetData | OpCode::Reconfig => Self::Data(Record::decode(input, "getData")?),
            OpCode::GetChildren | OpCode::GetEphemerals => {
                Self::Children(input.vector("children")?)
            }
            OpCode::GetChildren2 => Self::Children2(Record::decode(input, "getChildren2")?),
            OpCode::Multi => Self::Multi(MultiResult::decode_all(input)?),
            OpCode::MultiRead => Self::ReadResults(ReadResult::decode_all(input)?),
            OpCode::GetAcl => Self::Acl(Record::decode(input, "getACL")?),
            // Apache's server responds with a zero, others with nothing.
            OpCode::AddWatch if input.remaining() == 0 => Self::Code(0),
            OpCode::AddWatch => Self::Code(input.i32("addWatch")?),
            OpCode::GetAllChildrenNumber => Self::Number(input.i32("getAllChildrenNumber")?),
            OpCode::WhoAmI => Self::Identities(input.vector("whoAmI")?),
            OpCode::Sasl => Self::Sasl(Record::decode(input, "sasl")?),
            other => return Err(DecodeError::InvalidValue { what: "opcode", value: other.code() }),
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn response_to_add_watch_may_be_empty() {
        let decoded = |body: &'static [u8]| {
            Response::decode_body(OpCode::AddWatch, &mut Decoder::new(Bytes::from_static(body)))
        };
        assert_eq!(decoded(&[]), Ok(Response::Code(0)));
        assert_eq!(decoded(&[0, 0, 0, 0]), Ok(Response::Code(0)));
        assert!(decoded(&[0, 0]).is_err());
    }
}
