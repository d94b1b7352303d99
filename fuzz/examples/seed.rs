//! Makes the seeds of the corpus of `decode` from the frames that were captured from Apache
//! ZooKeeper, one of each kind and opcode, and some scripts for `session` and `server`. Run it in
//! `fuzz/`: `cargo run --example seed`.

use std::collections::{HashMap, VecDeque};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env!("CARGO_MANIFEST_DIR");
    let corpus = |target: &str| format!("{root}/corpus/{target}");
    let (decode, session, server) = (corpus("decode"), corpus("session"), corpus("server"));
    for directory in [&decode, &session, &server] {
        fs::create_dir_all(directory)?;
    }
    let frames = fs::read_to_string(format!("{root}/../proto/testdata/frames-3.8.txt"))?;
    // The opcodes of unanswered requests, per connection.
    let mut connections: HashMap<&str, VecDeque<[u8; 4]>> = HashMap::new();
    for line in frames.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split(' ');
        let (Some(direction), Some(connection), Some(hex)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let digits = hex.as_bytes().chunks(2);
        let frame: Vec<u8> = digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or("0"), 16).unwrap_or(0))
            .collect();
        let (name, seed) = match (direction, connections.get_mut(connection)) {
            (">", None) => {
                connections.insert(connection, VecDeque::from([[0; 4]]));
                ("connect".to_owned(), [&[0], &frame[..]].concat())
            }
            (">", Some(open)) => {
                let opcode = [frame[4], frame[5], frame[6], frame[7]];
                open.push_back(opcode);
                (format!("request-{}", i32::from_be_bytes(opcode)), [&[2], &frame[..]].concat())
            }
            (_, Some(open)) if open.front() == Some(&[0; 4]) => {
                open.pop_front();
                ("connected".to_owned(), [&[1], &frame[..]].concat())
            }
            (_, _) if frame.starts_with(&[0xff; 4]) => ("event".to_owned(), [&[4], &frame[..]].concat()),
            (_, Some(open)) => {
                let opcode = open.pop_front().unwrap_or_default();
                let name = format!("response-{}", i32::from_be_bytes(opcode));
                (name, [&[3], &opcode[..], &frame[..]].concat())
            }
            (_, None) => continue,
        };
        let path = format!("{decode}/{name}");
        if seed.len() < 512 && !fs::exists(&path)? {
            fs::write(path, seed)?;
        }
    }
    fs::write(format!("{decode}/frames"), [5, 4, 0, 0, 0, 2, 7, 7, 0, 0, 0, 0, 0, 0, 1, 0])?;
    // The server refuses everything; or responds to some requests, with pauses and events; or ends
    // the connection, and the session.
    fs::write(format!("{session}/refused"), [&[9], &[0x80_u8; 40][..]].concat())?;
    let mut answered = vec![9_u8, 2, 0x0a];
    for _ in 0..8 {
        answered.extend([0x03, 0x43, 0x80, 0x00, 0x16, 0x12]);
    }
    answered.extend([7, 9, 0x12, 0x12, 0x80, 0x80, 7, 0xdf]);
    fs::write(format!("{session}/answered"), answered)?;
    // A session of weeks, with a short password, and then silence.
    let grant = [&[0xe4, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8][..], &[7; 8]];
    fs::write(format!("{session}/weeks"), [grant.concat(), vec![0xf6; 8]].concat())?;
    fs::write(format!("{session}/garbage"), b"\xe5HTTP/1.1 400 Bad Request\r\n\r\n")?;
    // Every request of one connection while another has watches; invalid frames; sessions that
    // begin and end.
    let mut requests = vec![0x40 | 25, 0, 1, 1, 0];
    for kind in 0..40 {
        requests.extend([8 + (kind + 26) % 40, 2 + kind % 4, kind, 1, 0]);
    }
    fs::write(format!("{server}/requests"), requests)?;
    let garbage = [&b"\x03\x10GET / HTTP/1.1\r\n"[..], &[0x45, 0x7f, 0xff, 0xff, 0xff, 0x83, 3, 0, 0, 0]].concat();
    fs::write(format!("{server}/garbage"), garbage)?;
    let mut sessions = Vec::new();
    for timeout in [40_u8, 41, 3, 255, 1] {
        sessions.extend([6, timeout, 0x46, timeout, 36, 2, 0, 1, 0, 35, 6, 1, 0, 0, 1, timeout, 2, 9, 0, 7, 6]);
    }
    fs::write(format!("{server}/sessions"), sessions)
}
