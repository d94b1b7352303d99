//! Properties of operations.

use zk_curator_proto::OpCode;

/// Returns `true` if a read-only server refuses the operation.
pub(crate) const fn needs_quorum(opcode: OpCode) -> bool {
    matches!(
        opcode,
        OpCode::Sync
            | OpCode::Create
            | OpCode::Create2
            | OpCode::CreateTtl
            | OpCode::CreateContainer
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::Reconfig
            | OpCode::SetAcl
            | OpCode::Multi
    )
}

/// Returns the name of an operation in four-letter words.
pub(super) const fn short_name(opcode: OpCode) -> &'static str {
    match opcode {
        OpCode::Create | OpCode::Create2 | OpCode::CreateTtl | OpCode::CreateContainer => "CREA",
        OpCode::Delete => "DELE",
        OpCode::Exists => "EXIS",
        OpCode::GetData => "GETD",
        OpCode::SetData => "SETD",
        OpCode::GetAcl => "GETA",
        OpCode::SetAcl => "SETA",
        OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
        OpCode::Sync => "SYNC",
        OpCode::Ping => "PING",
        OpCode::Multi => "MULT",
        OpCode::MultiRead => "MLTR",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::SetWatches => "SETW",
        OpCode::SetWatches2 => "STW2",
        OpCode::AddWatch => "ADDW",
        OpCode::GetEphemerals => "GETE",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::WhoAmI => "HOMI",
        OpCode::CloseSession => "CLOS",
        _ => "NA",
    }
}
