//! The options of the command line.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use lexopt::{Arg, Parser};
use zk_test_server::option::{TaskOptions, Value};
use zk_test_server::program::Task;

const HELP: &str = "\
A proxy in front of ZooKeeper servers that understands their protocol, for faults in staging: it loses
the reply to a create, delays pings, cuts one client, and counts requests.

usage: zk-fault-proxy --server HOST:PORT [--listen ADDRESS:PORT] [OPTION…]

Prints one line `listening on ADDRESS:PORT` per server when it is ready. Clients connect there, without
TLS. Prints problems, such as a server that it cannot connect to, on standard error. Ends with SIGTERM,
SIGHUP or Ctrl-C, exit code 0. With nohup it ignores SIGHUP, and in the background of a script Ctrl-C. The
exit code is 2 for a wrong option or a port in use.

  --server HOST:PORT      a server; repeat it for an ensemble. The name is resolved for each connection
  --listen ADDRESS:PORT   the address for clients of the server before it; port 0 is any free one [127.0.0.1:0]
  --max-frame BYTES       the longest request that rules see; longer ones pass [4194304]
  --max-connections N     the most open connections to each server; others are closed immediately [1000]
  --control PORT          serve the control protocol on this port of 127.0.0.1; 0 is any free one, printed as
                          `control on HOST:PORT`. Needs a token in the environment variable ZK_TEST_SERVER_TOKEN
  --scenario FILE         the rules and steps to run from the start, in TOML; a step that fails ends the program
                          with exit code 3
  --until-scenario-ends   end after the last step, with exit code 0; 3 if it is ended earlier
  --until-eof             end at the end of standard input, with exit code 0
  -h, --help              print this
  -V, --version           print the version";

const VERSION: &str = concat!("zk-fault-proxy ", env!("CARGO_PKG_VERSION"));

/// The range of `--max-frame`, in bytes.
const FRAMES: RangeInclusive<u32> = 1024..=i32::MAX.cast_unsigned();

/// The range of `--max-connections`.
const CONNECTIONS: RangeInclusive<u32> = 1..=1_000_000;

/// The options of serving.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The servers, and the addresses for their clients.
    pub(crate) servers: Vec<(String, SocketAddr)>,
    pub(crate) max_frame: Option<usize>,
    pub(crate) max_connections: Option<usize>,
    pub(crate) tasks: TaskOptions,
}

/// Reads the command line.
///
/// # Errors
/// A text of one line that describes the error.
pub(crate) fn parse(mut arguments: Parser) -> Result<Task<Options>, lexopt::Error> {
    let mut options = Options::default();
    // The last server has no address yet.
    let mut is_bare = false;
    while let Some(argument) = arguments.next()? {
        let name = match argument {
            Arg::Long(name) => format!("--{name}"),
            Arg::Short(name) => format!("-{name}"),
            Arg::Value(_) => return Err(argument.unexpected()),
        };
        let mut value = Value::new(&name, &mut arguments);
        match name.as_str() {
            "-h" | "--help" => return Ok(Task::Print(HELP.to_owned())),
            "-V" | "--version" => return Ok(Task::Print(VERSION.to_owned())),
            "--server" => {
                options.servers.push((value.text()?, (Ipv4Addr::LOCALHOST, 0).into()));
                is_bare = true;
            }
            "--listen" => {
                let listen = value.parsed("an address with a port, such as 0.0.0.0:2181")?;
                match options.servers.last_mut().filter(|_| is_bare) {
                    Some((_, address)) => *address = listen,
                    None => return Err("option '--listen' follows its '--server'".into()),
                }
                is_bare = false;
            }
            "--max-frame" => options.max_frame = Some(value.number(FRAMES)? as usize),
            "--max-connections" => {
                options.max_connections = Some(value.number(CONNECTIONS)? as usize);
            }
            _ if options.tasks.read(&name, &mut value)? => {}
            _ => return Err(lexopt::Error::UnexpectedOption(name)),
        }
    }
    if options.servers.is_empty() {
        return Err("no '--server' is given".into());
    }
    options.tasks.check()?;
    Ok(Task::Serve(options))
}
