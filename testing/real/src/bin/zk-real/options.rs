//! The options of the command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;

use lexopt::{Arg, Parser, ValueExt};

use crate::command::COMMANDS;

const HELP: &str = "\
Runs Apache ZooKeeper on free ports of 127.0.0.1: one server, or an ensemble whose members are killed, stopped,
paused and started again by commands.

usage: zk-real [--ensemble N] [--until-eof]
       zk-real [--ensemble N] --exec COMMAND [ARGUMENT…]

Prints one line `ZK_CONNECT=HOST:PORT,…` when all servers serve. Ends with SIGTERM, SIGHUP or Ctrl-C, exit code 130.
With nohup it ignores SIGHUP, and in the background of a script Ctrl-C. The servers and their data end with the
program, however it ends. The exit code is 2 for a wrong option, and 1 if a server does not start.

  --ensemble N                   start N servers, from 2 to 9, which elect a leader, and read commands [one server,
                                 which has no commands]
  --until-eof                    end at the end of standard input, with exit code 0
  --exec COMMAND [ARGUMENT…]     run a command with ZK_CONNECT and ZK_DATA_DIRS, the data directories of the servers
                                 with `:` between them, in its environment, end when it ends, and return its exit
                                 code. It has the standard input, so there are none for members
  -h, --help                     print this

Commands are lines of standard input, and run one after another. Each is answered by one line of standard output, only
`help` by more: `ok kill 2`, with the numbers of the members, or `error kill 7: …`, with the reason. The program
continues after an error, and at the end of standard input. A shell with job control stops programs in the background
that read the terminal: start it there with `< /dev/null`.
";

/// The range of `--ensemble`.
const MEMBERS: RangeInclusive<usize> = 2..=9;

/// The request of a command line.
#[derive(Debug)]
pub(crate) enum Task {
    /// A text for standard output.
    Print(String),
    /// To run servers.
    Serve(Options),
}

/// The options of running servers.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The number of servers of an ensemble; one server if it is absent.
    pub(crate) ensemble: Option<usize>,
    pub(crate) until_eof: bool,
    /// The command to run, with its arguments.
    pub(crate) exec: Option<(OsString, Vec<OsString>)>,
}

/// Reads the command line.
///
/// # Errors
/// A text of one line that describes the error.
pub(crate) fn parse(mut arguments: Parser) -> Result<Task, lexopt::Error> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => {
                return Ok(Task::Print(format!("{HELP}\n{COMMANDS}")));
            }
            Arg::Long("ensemble") => {
                let text = arguments.value()?.string()?;
                let members = text.parse().ok().filter(|members| MEMBERS.contains(members));
                options.ensemble = Some(members.ok_or_else(|| {
                    let (least, most) = MEMBERS.into_inner();
                    format!("option '--ensemble': {text:?} is not a number from {least} to {most}")
                })?);
            }
            Arg::Long("until-eof") => options.until_eof = true,
            Arg::Long("exec") => {
                let mut words = arguments.raw_args()?;
                let program = words.next().ok_or("option '--exec' wants a command")?;
                options.exec = Some((program, words.collect()));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    if options.until_eof && options.exec.is_some() {
        return Err("option '--until-eof' is not for '--exec', whose command has the input".into());
    }
    Ok(Task::Serve(options))
}
