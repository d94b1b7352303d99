//! Commands on standard input: `stop N` and `start N`.

use std::error::Error;
use std::io::BufRead;

use tokio::sync::mpsc;
use zk_curator_testing::TestCluster;

use crate::output::{complain_of, print};

/// A command for a server, counted from zero.
enum Command {
    Stop(usize),
    Start(usize),
}

/// Executes the commands on standard input. The servers continue after the end of input. Returns
/// when a response cannot be written.
pub(crate) async fn obey(servers: &TestCluster) -> Box<dyn Error> {
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let Some(command) = parse(&line, servers.members().len()) else {
            complain_of(&format!("no command: '{}'; wants stop N or start N", line.escape_debug()));
            continue;
        };
        let answered = match command {
            Command::Stop(member) => {
                servers.kill(member).await;
                print(&format!("stopped {}", member + 1))
            }
            Command::Start(member) => match start(servers, member).await {
                Ok(()) => print(&format!("started {}", member + 1)),
                Err(error) => {
                    complain_of(&format!("cannot start {}: {error}", member + 1));
                    Ok(())
                }
            },
        };
        if let Err(error) = answered {
            return error;
        }
    }
    std::future::pending().await
}

async fn start(servers: &TestCluster, member: usize) -> std::io::Result<()> {
    if servers.member(member).is_running() { Ok(()) } else { servers.restart(member).await }
}

fn parse(line: &str, members: usize) -> Option<Command> {
    let (verb, number) = line.trim().split_once(' ')?;
    let member =
        number.trim().parse::<usize>().ok()?.checked_sub(1).filter(|member| *member < members)?;
    match verb {
        "stop" => Some(Command::Stop(member)),
        "start" => Some(Command::Start(member)),
        _ => None,
    }
}

/// Reads the lines of standard input, on a thread that nothing waits for, because a read cannot be
/// cancelled.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock().lines();
        while let Some(Ok(line)) = input.next() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
