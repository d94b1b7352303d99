use super::*;
use crate::config::Config;
use crate::ensemble::State;
use crate::session::Sessions;

fn new() -> Snapshot {
    let sessions = Sessions::new(10, None).saved();
    Snapshot { zxid: 0, tree: Tree::new(&Config::DEFAULT), sessions }
}

fn bytes_of(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Output { file: Vec::new(), hash: Sha1::new(), pending: Encoder::new() };
    snapshot.encode(&mut out).unwrap();
    out.finish().unwrap()
}

fn decode(bytes: &[u8]) -> Result<Snapshot, Damage> {
    Snapshot::decode(Bytes::copy_from_slice(bytes))
}

/// Returns the damage of other contents with the right checksum.
fn damage_of(contents: &[u8]) -> Damage {
    let sum = Sha1::from(contents).digest().bytes();
    decode(&[contents, &sum[..]].concat()).unwrap_err()
}

#[tokio::test]
async fn bytes_that_were_cut_or_changed_are_refused() {
    let whole = bytes_of(&new());
    assert_eq!(bytes_of(&decode(&whole).unwrap()), whole);
    for at in 0..whole.len() {
        assert!(decode(&whole[..at]).is_err(), "cut at {at}");
        let mut changed = whole.clone();
        changed[at] ^= 0x80;
        let damage = decode(&changed).unwrap_err();
        let expected = match at {
            0..8 => Damage::Foreign,
            8 => Damage::Version(i32::MIN + 1),
            9..12 => Damage::Version(1 ^ (0x80 << (8 * (11 - at)))),
            _ => Damage::Checksum,
        };
        assert_eq!(damage, expected, "changed at {at}");
    }
}

#[tokio::test]
async fn contents_that_no_server_has_are_refused() {
    let whole = bytes_of(&new());
    let contents = &whole[..whole.len() - HASH];
    for at in 12..contents.len() {
        assert!(matches!(damage_of(&contents[..at]), Damage::Field(_)), "cut at {at}");
    }
    assert!(matches!(damage_of(&[contents, b"x"].concat()), Damage::Content(_)));
    // The zxid, the next session, the number of past sessions, and the numbers of sessions and
    // nodes.
    for at in [12, 20, 28, 36, 44] {
        for number in [i64::MIN, -1, i64::MAX] {
            let mut changed = contents.to_vec();
            changed[at..at + 8].copy_from_slice(&number.to_be_bytes());
            // A negative number of sessions counts as none.
            if at != 36 || number > 0 {
                damage_of(&changed);
            }
        }
    }
    // Every other field gets an impossible value. No value may panic.
    for at in 12..contents.len() {
        for bit in [1, 0x40, 0x80] {
            let mut changed = contents.to_vec();
            changed[at] ^= bit;
            let sum = Sha1::from(&changed).digest().bytes();
            if let Ok(snapshot) = decode(&[&changed[..], &sum[..]].concat()) {
                State::new(Config::DEFAULT, 1, Some(snapshot)).reap();
            }
        }
    }
}

#[tokio::test]
async fn a_node_belongs_to_a_parent_and_an_ephemeral_one_to_a_session() {
    let with = |path: &str, owner: i64| {
        let whole = bytes_of(&new());
        let mut contents = whole[..whole.len() - HASH].to_vec();
        contents[44 + 7] += 1;
        let mut out = Encoder::new();
        out.string(path);
        out.buffer(None);
        out.i32(0);
        out.i64(owner);
        // Three zxids, two times, three counts.
        (0..5).for_each(|_| out.i64(0));
        (0..3).for_each(|_| out.i32(0));
        contents.extend_from_slice(&out.finish());
        let sum = Sha1::from(&contents).digest().bytes();
        decode(&[&contents[..], &sum[..]].concat()).map(|snapshot| snapshot.tree.count_below("/"))
    };
    assert_eq!(with("/a", 0), Ok(4));
    for (path, owner) in [("/a/b", 0), ("/zookeeper", 0), ("a", 0), ("/a", 7), ("/a", -1)] {
        assert!(matches!(with(path, owner), Err(Damage::Content(_))), "{path} {owner}");
    }
}
