//! The transactions of a log on hostile bytes: no panic, no memory for what a length announces, and
//! every part of a transaction that was decoded can be read.

use zk_curator_ops::history::{Record, Txn};

/// The limit of the allocations, in bytes: per input byte, plus a small amount for errors.
const MULTIPLE: usize = 64;
const BASE: usize = 64 * 1024;

pub(crate) fn run(input: &[u8]) {
    let allowed = crate::ALLOCATOR.allocated() + BASE + MULTIPLE * input.len();
    crate::ALLOCATOR.set_limit(allowed).expect("room");
    if let Ok(record) = Record::decode(input) {
        read(&record);
    }
    crate::ALLOCATOR.set_limit(usize::MAX).expect("room");
}

fn read(record: &Record<'_>) {
    if let Txn::Multi(multi) = record.txn {
        assert_eq!(multi.parts().count(), multi.len());
    }
    for (_, txn) in record.applied() {
        let acl = match txn {
            Txn::Create(create) => Some(create.acl),
            Txn::SetAcl(set) => Some(set.acl),
            Txn::CloseSession(Some(paths)) => {
                assert_eq!(paths.iter().count(), paths.len());
                None
            }
            _ => None,
        };
        // An identity may be no text.
        drop(acl.map(|acl| acl.to_vec()));
    }
}
