//! The sessions of the ensemble, and their ephemeral nodes: `dump`.

use std::collections::BTreeMap;

use crate::node::parse_id;

/// The response to `dump`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DumpResponse {
    /// The sessions. A follower knows them too, but not when they expire.
    pub sessions: BTreeMap<i64, DumpedSession>,
    /// The ephemeral nodes of each session.
    pub ephemerals: BTreeMap<i64, Vec<String>>,
}

/// A session in the response to `dump`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DumpedSession {
    /// The session timeout, in milliseconds. A leader does not write it.
    pub timeout: Option<u64>,
    /// The time at which the leader expires the session unless it hears of it before, as the
    /// leader writes it: in its time zone, to the second.
    pub expires: Option<String>,
}

/// The part of the response that is being read.
enum DumpPart {
    Sessions { expires: Option<String> },
    Ephemerals { owner: Option<i64> },
    Connections,
}

/// Parses the response to `dump`.
#[must_use]
pub fn dump(text: &str) -> DumpResponse {
    let mut dump = DumpResponse::default();
    let mut part = DumpPart::Connections;
    for line in text.lines() {
        if let Some(next) = DumpPart::begins(line) {
            part = next;
            continue;
        }
        match &mut part {
            DumpPart::Sessions { expires } => {
                if let Some((_, time)) = line.split_once(" expire at ") {
                    *expires = Some(time.trim_end_matches(':').to_owned());
                } else if let Some((session, timeout)) = session(line) {
                    let entry = DumpedSession { timeout, expires: expires.clone() };
                    dump.sessions.insert(session, entry);
                }
            }
            DumpPart::Ephemerals { owner } => match (line.strip_prefix(['\t', ' ']), *owner) {
                (Some(path), Some(owner)) => {
                    dump.ephemerals.entry(owner).or_default().push(path.to_owned());
                }
                (None, _) => *owner = parse_id(line.trim_end_matches(':')).ok(),
                _ => {}
            },
            DumpPart::Connections => {}
        }
    }
    dump
}

impl DumpPart {
    fn begins(line: &str) -> Option<Self> {
        let sessions = ["Session Sets", "Global Session", "Local Session", "Sessions dump"];
        if sessions.iter().any(|start| line.starts_with(start)) {
            Some(Self::Sessions { expires: None })
        } else if line.starts_with("Sessions with Ephemerals") {
            Some(Self::Ephemerals { owner: None })
        } else if line.starts_with("Connections dump") || line.starts_with("ephemeral nodes") {
            Some(Self::Connections)
        } else {
            None
        }
    }
}

/// Parses `\t0x…`, or `0x…\t8000ms`.
fn session(line: &str) -> Option<(i64, Option<u64>)> {
    let mut words = line.split_ascii_whitespace();
    let session = words.next().filter(|word| word.starts_with("0x"))?;
    let timeout = words.next().and_then(|word| word.strip_suffix("ms")?.parse().ok());
    Some((parse_id(session).ok()?, timeout))
}

/// Parses a time as Java writes it, such as `Thu Nov 26 10:20:08 UTC 2026`. Returns the zone, and
/// milliseconds that are those since 1970 if the zone is UTC.
pub(crate) fn java_date(text: &str) -> Option<(&str, i64)> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<_> = text.split_ascii_whitespace().collect();
    let [_, month, day, time, zone, year] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let year: u32 = year.parse().ok()?;
    let day: u32 = day.parse().ok()?;
    let text = format!("{year:04}-{month:02}-{day:02}T{time}Z");
    let time = humantime::parse_rfc3339(&text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some((zone, i64::try_from(time.as_millis()).ok()?))
}
