//! Conversions between the crate's types and those of this project.

use zk_curator_client::{Acl, CreateMode, Error, ErrorCode, Permissions, Stat};
use zookeeper_async as crated;

/// Every permission with the crate's name for it, because the crate does not expose the bits.
const PERMISSIONS: [(Permissions, crated::Permission); 5] = [
    (Permissions::READ, crated::Permission::READ),
    (Permissions::WRITE, crated::Permission::WRITE),
    (Permissions::CREATE, crated::Permission::CREATE),
    (Permissions::DELETE, crated::Permission::DELETE),
    (Permissions::ADMIN, crated::Permission::ADMIN),
];

/// Converts an error. The crate reports a lost connection by a code that a server may also send, so
/// the request may have been applied.
pub(super) fn error(error: crated::ZkError) -> Error {
    match error {
        crated::ZkError::ConnectionLoss => Error::ConnectionLoss { sent: true },
        crated::ZkError::SessionExpired => Error::SessionExpired { sent: true },
        crated::ZkError::AuthFailed => Error::AuthFailed { sent: true },
        crated::ZkError::MarshallingError => Error::UnexpectedResponse,
        other => {
            ErrorCode::from_code(other as i32).map_or(Error::UnexpectedResponse, Error::Refused)
        }
    }
}

pub(super) fn stat(stat: &crated::Stat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        data_length: stat.data_length,
        num_children: stat.num_children,
        pzxid: stat.pzxid,
    }
}

pub(super) fn acl_to_crate(acl: &[Acl]) -> Vec<crated::Acl> {
    let permissions = |bits: i32| {
        let given = PERMISSIONS.into_iter().filter(|(permission, _)| bits & permission.bits() != 0);
        given.fold(crated::Permission::NONE, |all, (_, permission)| all | permission)
    };
    acl.iter()
        .map(|acl| crated::Acl::new(permissions(acl.permissions.bits()), &acl.scheme, &acl.id))
        .collect()
}

pub(super) fn acl_from_crate(acl: Vec<crated::Acl>) -> Vec<Acl> {
    let permissions = |given: crated::Permission| {
        let given = PERMISSIONS.into_iter().filter(|(_, permission)| given.can(*permission));
        given.fold(Permissions::default(), |all, (permission, _)| all | permission)
    };
    acl.into_iter().map(|acl| Acl::new(permissions(acl.perms), acl.scheme, acl.id)).collect()
}

/// Converts a mode. Returns `None` for containers: the crate would send them as ordinary nodes.
pub(super) const fn mode(mode: CreateMode) -> Option<crated::CreateMode> {
    Some(match mode {
        CreateMode::Persistent => crated::CreateMode::Persistent,
        CreateMode::Ephemeral => crated::CreateMode::Ephemeral,
        CreateMode::PersistentSequential => crated::CreateMode::PersistentSequential,
        CreateMode::EphemeralSequential => crated::CreateMode::EphemeralSequential,
        CreateMode::PersistentWithTtl => crated::CreateMode::PersistentWithTTL,
        CreateMode::PersistentSequentialWithTtl => crated::CreateMode::PersistentSequentialWithTTL,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_survive_the_crate() {
        for bits in 0..32 {
            let acl = vec![Acl::new(Permissions::from_bits(bits), "digest", "u:h")];
            assert_eq!(acl_from_crate(acl_to_crate(&acl)), acl);
        }
    }

    #[test]
    fn a_lost_connection_may_have_applied() {
        assert!(error(crated::ZkError::ConnectionLoss).may_have_applied());
        assert_eq!(error(crated::ZkError::NoNode), Error::Refused(ErrorCode::NoNode));
        assert_eq!(error(crated::ZkError::BadVersion), Error::Refused(ErrorCode::BadVersion));
    }
}
