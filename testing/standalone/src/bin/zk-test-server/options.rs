//! The options of the command line.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser};
use zk_curator_testing::{TestServer, TestServerBuilder, ZooKeeperVersion};
use zk_test_server::option::{TaskOptions, Value};
use zk_test_server::program::Task;

const HELP: &str = "\
A ZooKeeper in memory, for tests: every operation and four-letter word, containers, TTL nodes.

usage: zk-test-server [OPTION…]

Prints one line `listening on HOST:PORT` per server when it is ready. Ends with SIGTERM, SIGHUP or Ctrl-C, exit code 0.
With nohup it ignores SIGHUP, and in the background of a script Ctrl-C.
The exit code is 2 for a wrong option, a port in use or a damaged data directory, and 1 if the data
cannot be saved.

  --host ADDRESS              the address to listen on, or a name of this machine [127.0.0.1]
  --port N                    the TCP port; 0 is any free one [2181]
  --ensemble N                the number of servers in an ensemble [1]
  --ports A,B,C               the ports of the ensemble [consecutive ones from --port]
  --tick-time MS              the granularity of session expiry, in milliseconds [2000]
  --min-session-timeout MS    the shortest timeout of a session [2 ticks]
  --max-session-timeout MS    the longest timeout of a session [20 ticks]
  --max-client-connections N  the maximum number of connections of one address; 0 means no limit [0]
  --jute-max-buffer BYTES     the longest frame a client may send [1048575]
  --data-dir DIR              the directory to load nodes and sessions from at the start, and to save them to at the
                              end; for one server only, and no other program may serve from it [none]
  --max-backlog BYTES         the maximum size of the queue for a client that does not read [16777216]
  --container-interval MS     the interval at which empty containers and expired nodes are removed [1000]
  --zookeeper-version V       behave like 3.8 or 3.9 where they differ [3.9]
  --super-digest super:HASH   the super user, as in zookeeper.DigestAuthenticationProvider.superDigest
  --read-only                 serve like a server without a quorum: only read-only clients, no writes; servers of an
                              ensemble do so while they have no quorum
  --reconfig-enabled          respond to `reconfig` like a standalone Apache ZooKeeper with reconfig: not implemented
  --control PORT              serve the control protocol on this port of 127.0.0.1; 0 is any free one, printed as
                              `control on HOST:PORT`. Needs a token in the environment variable ZK_TEST_SERVER_TOKEN
  --scenario FILE             the rules and steps to run from the start, in TOML; a step that fails ends the program
                              with exit code 3
  --until-scenario-ends       end after the last step, with exit code 0; 3 if it is ended earlier
  --until-eof                 end at the end of standard input, with exit code 0
  -h, --help                  print this
  -V, --version               print the version";

const VERSION: &str = concat!("zk-test-server ", env!("CARGO_PKG_VERSION"));

/// The tick of Apache ZooKeeper's sample configuration.
const TICK: Duration = Duration::from_secs(2);
const CONTAINER_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of servers of an ensemble.
const MOST_MEMBERS: u16 = 99;
/// The longest frame length that the header can express.
const MAX_FRAME: u32 = i32::MAX.cast_unsigned();

/// The options of serving.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) host: IpAddr,
    /// The port of each server.
    pub(crate) ports: Vec<u16>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) read_only: bool,
    pub(crate) tasks: TaskOptions,
    /// The other settings.
    pub(crate) builder: TestServerBuilder,
}

/// Reads the command line.
///
/// # Errors
/// A text of one line that describes the error.
pub(crate) fn parse(mut arguments: Parser) -> Result<Task<Options>, lexopt::Error> {
    let (mut host, mut port) = (IpAddr::V4(Ipv4Addr::LOCALHOST), 2181);
    let (mut ensemble, mut ports) = (None, None);
    let (mut data_dir, mut read_only, mut tasks) = (None, false, TaskOptions::default());
    let (mut tick, mut shortest, mut longest) = (TICK, None, None);
    let mut builder = TestServer::builder().container_check_interval(CONTAINER_INTERVAL);
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
            "--host" => host = address(&mut value)?,
            "--port" => port = value.number(0..=u16::MAX)?,
            "--ensemble" => ensemble = Some(value.number(1..=MOST_MEMBERS)?),
            "--ports" => ports = Some(port_list(&mut value)?),
            "--tick-time" => tick = millis(&mut value)?,
            "--min-session-timeout" => shortest = Some(millis(&mut value)?),
            "--max-session-timeout" => longest = Some(millis(&mut value)?),
            "--max-client-connections" => {
                builder = match value.number(0..=u32::MAX)? {
                    0 => builder,
                    limit => builder.max_client_connections(limit as usize),
                };
            }
            "--jute-max-buffer" => {
                builder = builder.max_frame(value.number(1..=MAX_FRAME)? as usize);
            }
            "--max-backlog" => builder = builder.max_backlog(value.number(0..=u32::MAX)? as usize),
            "--data-dir" => data_dir = Some(value.path("a directory")?),
            "--container-interval" => {
                builder = builder.container_check_interval(millis(&mut value)?);
            }
            "--zookeeper-version" => builder = builder.version(version(&mut value)?),
            "--super-digest" => builder = builder.super_digest(digest(&mut value)?),
            "--reconfig-enabled" => builder = builder.reconfig_enabled(true),
            "--read-only" => read_only = true,
            _ if tasks.read(&name, &mut value)? => {}
            _ => return Err(lexopt::Error::UnexpectedOption(name)),
        }
    }
    let (shortest, longest) = (shortest.unwrap_or(tick * 2), longest.unwrap_or(tick * 20));
    if shortest > longest {
        let text = format!(
            "the shortest session timeout, {shortest:?}, is above the longest, {longest:?}"
        );
        return Err(text.into());
    }
    tasks.check()?;
    builder = builder.read_only(read_only);
    builder = builder.tick_time(tick).min_session_timeout(shortest).max_session_timeout(longest);
    let ports = ports_of(port, ports, ensemble)?;
    Ok(Task::Serve(Options { host, ports, data_dir, read_only, tasks, builder }))
}

/// Returns the ports of all servers: the given ones, or consecutive ones from the first.
fn ports_of(
    first: u16,
    given: Option<Vec<u16>>,
    ensemble: Option<u16>,
) -> Result<Vec<u16>, lexopt::Error> {
    let members = ensemble.unwrap_or(1);
    match given {
        Some(_) if ensemble.is_none() => Err("option '--ports' is for '--ensemble'".into()),
        Some(ports) if ports.len() == usize::from(members) => Ok(ports),
        Some(ports) => Err(format!("{} ports for {members} servers", ports.len()).into()),
        None if first == 0 => Ok(vec![0; members.into()]),
        None => {
            let port =
                |number: u16| first.checked_add(number).ok_or_else(|| "ports above 65535".into());
            (0..members).map(port).collect()
        }
    }
}

fn port_list(value: &mut Value<'_>) -> Result<Vec<u16>, lexopt::Error> {
    let text = value.text()?;
    let ports: Result<_, _> = text.split(',').map(|port| port.trim().parse()).collect();
    ports.map_err(|_| value.wrong(&text, "ports from 0 to 65535, with commas"))
}

fn millis(value: &mut Value<'_>) -> Result<Duration, lexopt::Error> {
    value.number(1..=u32::MAX).map(|millis| Duration::from_millis(millis.into()))
}

fn address(value: &mut Value<'_>) -> Result<IpAddr, lexopt::Error> {
    let text = value.text()?;
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let mut found = (text.as_str(), 0)
        .to_socket_addrs()
        .map_err(|error| value.wrong(&text, &format!("an address ({error})")))?;
    found.next().map(|addr| addr.ip()).ok_or_else(|| value.wrong(&text, "an address"))
}

fn version(value: &mut Value<'_>) -> Result<ZooKeeperVersion, lexopt::Error> {
    let text = value.text()?;
    match text.as_str() {
        "3.8" => Ok(ZooKeeperVersion::V3_8),
        "3.9" => Ok(ZooKeeperVersion::V3_9),
        _ => Err(value.wrong(&text, "3.8 or 3.9")),
    }
}

fn digest(value: &mut Value<'_>) -> Result<String, lexopt::Error> {
    let text = value.text()?;
    match text.split_once(':') {
        Some((user, hash)) if !user.is_empty() && !hash.is_empty() => Ok(text),
        _ => Err(value.wrong(&text, "a name, a colon and a hash")),
    }
}
