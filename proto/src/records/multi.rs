use super::{
    CheckVersionRequest, Create2Response, CreateRequest, CreateTtlRequest, DataResponse,
    DeleteRequest, GetChildrenRequest, GetDataRequest, SetDataRequest, Stat,
};
use crate::{DecodeError, Decoder, Encoder, ErrorCode, OpCode, Record};

/// One operation of a multi.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiOp {
    /// Creates a node; the result is its path.
    Create(CreateRequest),
    /// Creates a node; the result is its path and stat. ZooKeeper 3.8 considers only the flags, and
    /// returns only the path, as for [`MultiOp::Create`].
    Create2(CreateRequest),
    /// Creates a container.
    CreateContainer(CreateRequest),
    /// Creates a node with a time to live.
    CreateTtl(CreateTtlRequest),
    /// Deletes a node.
    Delete(DeleteRequest),
    /// Replaces data.
    SetData(SetDataRequest),
    /// Checks a version.
    Check(CheckVersionRequest),
}

impl MultiOp {
    /// Returns the opcode in front of the operation.
    #[must_use]
    pub const fn opcode(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::SetData(_) => OpCode::SetData,
            Self::Check(_) => OpCode::Check,
        }
    }

    /// Returns the path of the node that the operation concerns.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => &body.path,
            Self::CreateTtl(body) => &body.path,
            Self::Delete(body) => &body.path,
            Self::SetData(body) => &body.path,
            Self::Check(body) => &body.path,
        }
    }

    pub(crate) fn encode_all(ops: &[Self], out: &mut Encoder) {
        for op in ops {
            put_header(out, op.opcode(), false, -1);
            match op {
                Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => {
                    body.encode(out);
                }
                Self::CreateTtl(body) => body.encode(out),
                Self::Delete(body) => body.encode(out),
                Self::SetData(body) => body.encode(out),
                Self::Check(body) => body.encode(out),
            }
        }
        put_header(out, OpCode::Error, true, -1);
    }

    pub(crate) fn decode_all(input: &mut Decoder) -> Result<Vec<Self>, DecodeError> {
        let mut ops = Vec::new();
        while let Some(header) = MultiHeader::next(input)? {
            ops.push(match header.opcode {
                OpCode::Create => Self::Create(Record::decode(input, "multi")?),
                OpCode::Create2 => Self::Create2(Record::decode(input, "multi")?),
                OpCode::CreateContainer => Self::CreateContainer(Record::decode(input, "multi")?),
                OpCode::CreateTtl => Self::CreateTtl(Record::decode(input, "multi")?),
                OpCode::Delete => Self::Delete(Record::decode(input, "multi")?),
                OpCode::SetData => Self::SetData(Record::decode(input, "multi")?),
                OpCode::Check => Self::Check(Record::decode(input, "multi")?),
                other => return Err(not_in_multi(other)),
            });
        }
        Ok(ops)
    }
}

/// The result of one operation of a multi.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiResult {
    /// The result of [`MultiOp::Create`]: the path.
    Create(String),
    /// The result of [`MultiOp::Create2`], [`MultiOp::CreateContainer`] and [`MultiOp::CreateTtl`].
    Create2(Create2Response),
    /// The result of [`MultiOp::Delete`].
    Delete,
    /// The result of [`MultiOp::SetData`].
    SetData(Stat),
    /// The result of [`MultiOp::Check`].
    Check,
    /// The multi failed. The failed operation has the error, the operations before it have `None`,
    /// and those after it [`ErrorCode::RuntimeInconsistency`].
    Error(Option<ErrorCode>),
}

impl MultiResult {
    pub(crate) fn encode_all(results: &[Self], out: &mut Encoder) {
        for result in results {
            match result {
                Self::Create(path) => {
                    put_header(out, OpCode::Create, false, 0);
                    out.string(path);
                }
                Self::Create2(body) => {
                    put_header(out, OpCode::Create2, false, 0);
                    body.encode(out);
                }
                Self::Delete => put_header(out, OpCode::Delete, false, 0),
                Self::SetData(stat) => {
                    put_header(out, OpCode::SetData, false, 0);
                    stat.encode(out);
                }
                Self::Check => put_header(out, OpCode::Check, false, 0),
                Self::Error(code) => put_error(out, *code),
            }
        }
        put_header(out, OpCode::Error, true, -1);
    }

    pub(crate) fn decode_all(input: &mut Decoder) -> Result<Vec<Self>, DecodeError> {
        let mut results = Vec::new();
        while let Some(header) = MultiHeader::next(input)? {
            results.push(match header.opcode {
                OpCode::Create => Self::Create(input.string("multi create")?),
                OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                    Self::Create2(Record::decode(input, "multi")?)
                }
                OpCode::Delete => Self::Delete,
                OpCode::SetData => Self::SetData(Record::decode(input, "multi")?),
                OpCode::Check => Self::Check,
                OpCode::Error => Self::Error(ErrorCode::from_code(input.i32("multi error")?)),
                other => return Err(not_in_multi(other)),
            });
        }
        Ok(results)
    }
}

/// One operation of a multi read; needs ZooKeeper 3.6.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOp {
    /// Reads data and stat. Its `watch` flag has no effect.
    GetData(GetDataRequest),
    /// Lists the names of the children. Its `watch` flag has no effect.
    GetChildren(GetChildrenRequest),
}

impl ReadOp {
    /// Returns the opcode in the header.
    #[must_use]
    pub const fn opcode(&self) -> OpCode {
        match self {
            Self::GetData(_) => OpCode::GetData,
            Self::GetChildren(_) => OpCode::GetChildren,
        }
    }

    /// Returns the path of the node that the operation reads.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::GetData(body) => &body.path,
            Self::GetChildren(body) => &body.path,
        }
    }

    pub(crate) fn encode_all(ops: &[Self], out: &mut Encoder) {
        for op in ops {
            match op {
                Self::GetData(body) => {
                    put_header(out, OpCode::GetData, false, -1);
                    body.encode(out);
                }
                Self::GetChildren(body) => {
                    put_header(out, OpCode::GetChildren, false, -1);
                    body.encode(out);
                }
            }
        }
        put_header(out, OpCode::Error, true, -1);
    }

    pub(crate) fn decode_all(input: &mut Decoder) -> Result<Vec<Self>, DecodeError> {
        let mut ops = Vec::new();
        while let Some(header) = MultiHeader::next(input)? {
            ops.push(match header.opcode {
                OpCode::GetData => Self::GetData(Record::decode(input, "multiRead")?),
                OpCode::GetChildren => Self::GetChildren(Record::decode(input, "multiRead")?),
                other => return Err(not_in_multi(other)),
            });
        }
        Ok(ops)
    }
}

/// The result of one operation of a multi read. Each operation has a result of its own.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadResult {
    /// The result of [`ReadOp::GetData`].
    Data(DataResponse),
    /// The result of [`ReadOp::GetChildren`].
    Children(Vec<String>),
    /// The operation failed.
    Error(Option<ErrorCode>),
}

impl ReadResult {
    pub(crate) fn encode_all(results: &[Self], out: &mut Encoder) {
        for result in results {
            match result {
                Self::Data(body) => {
                    put_header(out, OpCode::GetData, false, 0);
                    body.encode(out);
                }
                Self::Children(names) => {
                    put_header(out, OpCode::GetChildren, false, 0);
                    out.vector(names);
                }
                Self::Error(code) => put_error(out, *code),
            }
        }
        put_header(out, OpCode::Error, true, -1);
    }

    pub(crate) fn decode_all(input: &mut Decoder) -> Result<Vec<Self>, DecodeError> {
        let mut results = Vec::new();
        while let Some(header) = MultiHeader::next(input)? {
            results.push(match header.opcode {
                OpCode::GetData => Self::Data(Record::decode(input, "multiRead")?),
                OpCode::GetChildren => Self::Children(input.vector("multiRead children")?),
                OpCode::Error => Self::Error(ErrorCode::from_code(input.i32("multiRead error")?)),
                other => return Err(not_in_multi(other)),
            });
        }
        Ok(results)
    }
}

const fn not_in_multi(opcode: OpCode) -> DecodeError {
    DecodeError::InvalidValue { what: "operation of a multi", value: opcode.code() }
}

struct MultiHeader {
    opcode: OpCode,
}

impl MultiHeader {
    fn next(input: &mut Decoder) -> Result<Option<Self>, DecodeError> {
        let opcode = input.i32("MultiHeader.type")?;
        let done = input.bool("MultiHeader.done")?;
        input.i32("MultiHeader.err")?;
        if done {
            return Ok(None);
        }
        Ok(Some(Self { opcode: opcode.try_into()? }))
    }
}

fn put_header(out: &mut Encoder, opcode: OpCode, done: bool, err: i32) {
    out.i32(opcode.code());
    out.bool(done);
    out.i32(err);
}

fn put_error(out: &mut Encoder, code: Option<ErrorCode>) {
    let code = code.map_or(0, ErrorCode::code);
    put_header(out, OpCode::Error, false, code);
    out.i32(code);
}
