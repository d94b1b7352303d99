use std::collections::BTreeMap;

use zk_curator::FencingToken;

use super::Error;
use super::record::{MemberRecord, Parts};
use super::site::PartitionSite;
use crate::participant::Participant;

/// The number of parts that are read at a time.
const READS_AT_ONCE: usize = 64;

/// The members of a set, and the owners of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionView {
    /// The members by their ids.
    pub members: BTreeMap<String, MemberView>,
    /// The parts by their names.
    pub parts: BTreeMap<String, PartView>,
}

/// A member of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberView {
    /// Its [weight](super::SetPartitioner::weight).
    pub weight: u32,
    /// Its [zone](super::SetPartitioner::zone).
    pub zone: Option<String>,
}

/// A part of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartView {
    /// The member that the part is assigned to, with the present members.
    pub assigned_to: Option<String>,
    /// The member that owns the part. A kazoo member has an empty id here.
    pub owner: Option<String>,
    /// The fencing token of the owner.
    pub fencing_token: Option<FencingToken>,
    /// The members that wait for the part, in their order.
    pub waiting: Vec<String>,
}

impl PartitionView {
    pub(super) async fn read(site: &PartitionSite, parts: Parts) -> Result<Self, Error> {
        let members = site.present().await?;
        let owners = site.method.assign(&parts, &members);
        let names: Vec<&str> = parts.keys().map(String::as_str).collect();
        let mut views = BTreeMap::new();
        for names in names.chunks(READS_AT_ONCE) {
            let locks: Vec<_> = names.iter().map(|name| site.lock(name)).collect();
            let reads = locks.iter().map(crate::lock::InterProcessMutex::participants);
            let read = futures_util::future::try_join_all(reads).await.map_err(of_lock)?;
            for (name, participants) in names.iter().zip(read) {
                let id = |participant: &Participant| participant.label_str().into_owned();
                let first = participants.first();
                let view = PartView {
                    assigned_to: owners.get(name).map(|node| site.id_of(node).to_owned()),
                    owner: first.map(id),
                    fencing_token: first.map(|first| first.fencing_token),
                    waiting: participants.iter().skip(1).map(id).collect(),
                };
                views.insert((*name).to_owned(), view);
            }
        }
        let view = |(node, member): (&String, &MemberRecord)| {
            let MemberRecord { weight, zone, .. } = member.clone();
            (site.id_of(node).to_owned(), MemberView { weight, zone })
        };
        Ok(Self { members: members.iter().map(view).collect(), parts: views })
    }

    /// Returns the names of the parts that this member owns.
    pub fn owned_by<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a str> {
        let is_owned = move |part: &&PartView| part.owner.as_deref() == Some(id);
        let owned = self.parts.iter().filter(move |(_, part)| is_owned(part));
        owned.map(|(name, _)| name.as_str())
    }
}

fn of_lock(error: crate::lock::Error) -> Error {
    match error {
        crate::lock::Error::Framework(error) => error.into(),
        error => Error::Lock(error),
    }
}
