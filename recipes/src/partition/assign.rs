//! Decides which member owns which part: pure functions of the two sets.

use std::collections::BTreeMap;

use super::record::{MemberRecord, NEWEST, Parts};

/// The members by the names of their nodes.
pub(super) type MembersByNode = BTreeMap<String, MemberRecord>;
/// The owner of each part.
pub(super) type PartOwners<'a> = BTreeMap<&'a str, &'a str>;

/// A possible owner of a part. The order decides: the lowest is taken first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    /// `false` if the part prefers the zone of the member.
    is_elsewhere: bool,
    /// The lower, the closer are member and part: the negative logarithm of the hash, divided by
    /// the weight.
    distance: u64,
    /// The distance of members with equal weights, more precisely.
    hash: u64,
    part: usize,
    member: usize,
}

/// Assigns the parts by *bounded rendezvous*.
///
/// Every pair of a part and a member has a distance, which depends on these two names and the
/// weight of the member only. The closest pairs are taken first, as long as the part has no owner
/// and the member has [room](room). So the result is the same on every member with the same two
/// sets, and a member that comes or goes changes the owner of few parts other than its own.
///
/// Takes time in proportion to the number of pairs.
pub(super) fn bounded_rendezvous<'a>(
    parts: &'a Parts,
    members: &'a MembersByNode,
) -> PartOwners<'a> {
    by_version(common_version(members), parts, members)
}

fn by_version<'a>(version: u32, parts: &'a Parts, members: &'a MembersByNode) -> PartOwners<'a> {
    let part_hashes: Vec<u64> = parts.keys().map(|name| fnv(name)).collect();
    let member_hashes: Vec<u64> =
        members.keys().map(|name| mix(fnv(name).wrapping_add(u64::from(version)))).collect();
    let weights: Vec<u32> = members.values().map(|member| member.weight.max(1)).collect();
    let is_weighted = weights.iter().any(|weight| *weight != weights[0]);

    let mut pairs = Vec::with_capacity(parts.len() * members.len());
    for (part, (zone, part_hash)) in parts.values().zip(&part_hashes).enumerate() {
        for (member, (of, member_hash)) in members.values().zip(&member_hashes).enumerate() {
            let hash = !mix(member_hash ^ part_hash);
            let distance = if is_weighted { distance(hash, weights[member]) } else { 0 };
            let is_elsewhere = zone.is_none() || *zone != of.zone;
            pairs.push(Pair { is_elsewhere, distance, hash, part, member });
        }
    }
    pairs.sort_unstable();

    let mut room = room(parts.len(), &weights);
    let mut owners = vec![None; parts.len()];
    for Pair { part, member, .. } in pairs {
        if owners[part].is_none() && room[member] > 0 {
            owners[part] = Some(member);
            room[member] -= 1;
        }
    }
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    let owned = parts.keys().zip(owners);
    owned.filter_map(|(part, owner)| Some((part.as_str(), names[owner?]))).collect()
}

/// The most parts of each member: its share by weight, rounded up, and a tenth of the share,
/// rounded down. Never more than 1.1 times the share, rounded up.
///
/// The tenth leaves room, so that a change does not move parts from one full member to the next.
/// Small sets are divided evenly.
fn room(parts: usize, weights: &[u32]) -> Vec<usize> {
    let total = weights.iter().map(|weight| u128::from(*weight)).sum::<u128>().max(1);
    let of = |weight: &u32| {
        let share = u128::from(*weight) * parts as u128;
        usize::try_from(share.div_ceil(total) + share / (10 * total)).unwrap_or(parts)
    };
    weights.iter().map(of).collect()
}

/// The lowest of the versions of the members. A version that is higher than ours is of a member
/// that knows ours too.
pub(super) fn common_version(members: &MembersByNode) -> u32 {
    let lowest = members.values().map(|member| member.version).min();
    lowest.unwrap_or(NEWEST).clamp(1, NEWEST)
}

/// `-log2(1 - hash / 2^64) / weight`, in fixed point: with it the share of a member is in
/// proportion to its weight. Integers only, so that every machine gets the same result.
fn distance(hash: u64, weight: u32) -> u64 {
    /// The number of binary digits after the point of the logarithm.
    const DIGITS: u32 = 24;
    let value = (!hash).max(1);
    let zeros = value.leading_zeros();
    // From 1, included, to 2, with 63 digits after the point.
    let mut mantissa = u128::from(value << zeros);
    let mut fraction = 0_u64;
    for _ in 0..DIGITS {
        mantissa = (mantissa * mantissa) >> 63;
        let digit = mantissa >> 64;
        mantissa >>= digit;
        fraction = fraction << 1 | u64::from(digit == 1);
    }
    let logarithm = (u64::from(zeros + 1) << DIGITS) - fraction;
    (logarithm << 16) / u64::from(weight)
}

/// FNV-1a with 64 bits.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The mixing function of `SplitMix64`: FNV alone gives similar names similar hashes.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
#[path = "assign_tests.rs"]
mod tests;
