use crate::records::{Children2Response, Create2Response, DataResponse, MultiResult, Stat};
use crate::{DecodeError, Decoder, Encoder, OpCode, Record};

/// The body of a successful answer, without its header.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Of `ping`, `closeSession`, `auth`, `delete`, `setWatches` and `setWatches2`.
    Empty,
    /// Of `create` and `sync`.
    Path(String),
    /// Of `create2`, `createContainer` and `createTTL`.
    Created(Create2Response),
    /// Of `exists` and `setData`.
    Stat(Stat),
    /// Of `getData`.
    Data(DataResponse),
    /// Of `getChildren`.
    Children(Vec<String>),
    /// Of `getChildren2`.
    Children2(Children2Response),
    /// Of `multi`; also when it failed.
    Multi(Vec<MultiResult>),
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
        }
    }

    /// Reads the body of the answer to a request with this opcode.
    ///
    /// # Errors
    /// A [`DecodeError`]; [`DecodeError::InvalidValue`] of `opcode` when this crate does not know the body.
    pub fn decode_body(opcode: OpCode, input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match opcode {
            OpCode::Ping
            | OpCode::CloseSession
            | OpCode::Auth
            | OpCode::Delete
            | OpCode::SetWatches
            | OpCode::SetWatches2 => Self::Empty,
            OpCode::Create | OpCode::Sync => Self::Path(input.string("path")?),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::Created(Record::decode(input, "create2")?)
            }
            OpCode::Exists | OpCode::SetData => Self::Stat(Record::decode(input, "stat")?),
            OpCode::GetData => Self::Data(Record::decode(input, "getData")?),
            OpCode::GetChildren => Self::Children(input.vector("children")?),
            OpCode::GetChildren2 => Self::Children2(Record::decode(input, "getChildren2")?),
            OpCode::Multi => Self::Multi(MultiResult::decode_all(input)?),
            other => return Err(DecodeError::InvalidValue { what: "opcode", value: other.code() }),
        })
    }
}
