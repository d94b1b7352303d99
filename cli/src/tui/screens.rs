//! The tables of the screens, from one sample.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_curator::SessionId;
use zk_curator_ops::ensemble::probe::{ProbeReport, ProbedServer};
use zk_curator_ops::ensemble::rates::RateBaseline;
use zk_curator_ops::ensemble::words::ClientConnection;
use zk_curator_ops::ensemble::{health, notes, sessions};

use super::model::{Detail, Sample, ScreenName};
use super::table::{CellValue, Table, TableColumn, left, rate, right};
use super::{hot, recipes, tree};
use crate::output::time;
use crate::{node, probe};

/// The columns of the rates.
pub(crate) const CLIENT_RATE: usize = 3;
pub(crate) const SESSION_RATE: usize = 4;

const SERVERS: &[TableColumn] = &[
    left("SERVER", 0),
    left("ROLE", 11),
    left("VERSION", 8).spare(),
    left("UP", 9).spare(),
    right("CONN", 5),
    right("REQ/s", 6),
    right("OUT", 4),
    right("AVG ms", 7),
    right("LAG", 6),
    right("MAX ms", 7),
    right("ZNODES", 9),
    right("DATA", 10),
    right("WATCHES", 8),
    right("FD%", 4),
];
const CLIENTS: &[TableColumn] = &[
    left("CLIENT", 0),
    right("CONN", 6),
    right("SESSIONS", 9),
    right("REQ/s", 8),
    right("QUEUED", 7),
    right("MAX ms", 7),
    left("SERVERS", 30),
];
const SESSIONS: &[TableColumn] = &[
    left("SESSION", 18),
    left("CLIENT", 0),
    left("SERVER", 22),
    right("TIMEOUT", 8),
    right("REQ/s", 8),
    left("LAST", 5),
    right("EPHEMERALS", 11),
    right("SILENT", 8),
];
const WATCHES: &[TableColumn] = &[left("PATH", 0), right("WATCHES", 8), left("SERVERS", 40)];

/// Returns the columns of a screen.
pub(crate) const fn columns(screen: ScreenName) -> &'static [TableColumn] {
    match screen {
        ScreenName::Servers => SERVERS,
        ScreenName::Clients => CLIENTS,
        ScreenName::Sessions => SESSIONS,
        ScreenName::Watches => WATCHES,
        ScreenName::Recipes => recipes::COLUMNS,
        ScreenName::Tree => tree::COLUMNS,
        ScreenName::Hot => hot::COLUMNS,
    }
}

/// Returns the table of a screen.
pub(crate) fn table(screen: ScreenName, sample: &Sample, before: &RateBaseline) -> Table {
    match screen {
        ScreenName::Servers => servers(sample, before),
        ScreenName::Clients => clients(sample, before),
        ScreenName::Sessions => of_sessions(sample, before),
        ScreenName::Watches => watches(sample),
        ScreenName::Recipes | ScreenName::Tree | ScreenName::Hot => Table::new(columns(screen)),
    }
}

fn decimal(number: f64) -> CellValue {
    CellValue::Number(number, format!("{number:.1}"))
}

fn span(span: Duration) -> CellValue {
    CellValue::Number(span.as_secs_f64(), time::duration(span))
}

#[expect(clippy::cast_precision_loss, reason = "only the order depends on it")]
fn size(bytes: u64) -> CellValue {
    CellValue::Number(bytes as f64, time::size(bytes))
}

fn servers(sample: &Sample, before: &RateBaseline) -> Table {
    let mut table = Table::new(SERVERS);
    for report in &sample.reports {
        let srvr = report.srvr.as_ref().ok();
        let latency = srvr.and_then(|srvr| srvr.latency);
        let lag = health::lag(&sample.reports, report).filter(|_| !report.leads());
        let files = report.metric("open_file_descriptor_count");
        let files = files.zip(report.metric("max_file_descriptor_count"));
        table.push(
            report.server.to_string(),
            vec![
                report.server.to_string().into(),
                report.role().into(),
                report.release().into(),
                report.count("uptime").map(|ms| span(Duration::from_millis(ms))).into(),
                srvr.and_then(|srvr| srvr.connections).into(),
                before.requests(report).map(rate).into(),
                srvr.and_then(|srvr| srvr.outstanding).into(),
                latency.map(|(average, _)| decimal(average)).into(),
                lag.into(),
                latency.map(|(_, greatest)| decimal(greatest)).into(),
                srvr.and_then(|srvr| srvr.nodes).into(),
                report.count("approximate_data_size").map(size).into(),
                report.count("watch_count").into(),
                files.map(|(open, most)| decimal(100.0 * open / most)).into(),
            ],
        );
    }
    table.note = note(&sample.reports);
    table
}

/// Returns the first server that did not tell something.
fn note(reports: &[ProbeReport]) -> Option<String> {
    notes(reports).first().map(probe::note)
}

/// Returns the host of an address with a port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// Returns the connections of all servers, without those that only ask.
fn connections(
    reports: &[ProbeReport],
) -> impl Iterator<Item = (&ProbedServer, &ClientConnection)> {
    let all = reports.iter().flat_map(|report| {
        report.cons.iter().flatten().map(move |connection| (&report.server, connection))
    });
    all.filter(|(_, connection)| connection.session.is_some())
}

/// The connections of a host.
#[derive(Default)]
struct ClientRow<'a> {
    connections: usize,
    sessions: Vec<i64>,
    rate: Option<f64>,
    queued: u64,
    greatest_latency: Option<f64>,
    servers: Vec<&'a ProbedServer>,
}

fn clients(sample: &Sample, before: &RateBaseline) -> Table {
    let mut clients: BTreeMap<&str, ClientRow<'_>> = BTreeMap::new();
    for (server, connection) in connections(&sample.reports) {
        let client = clients.entry(host(&connection.address)).or_default();
        client.connections += 1;
        client.sessions.extend(connection.session);
        client.queued += connection.queued;
        if let Some(rate) = before.of_connection(server, connection) {
            *client.rate.get_or_insert_default() += rate;
        }
        let latencies = client.greatest_latency.into_iter().chain(connection.greatest_latency);
        client.greatest_latency = latencies.reduce(f64::max);
        if !client.servers.contains(&server) {
            client.servers.push(server);
        }
    }
    let mut table = Table::new(CLIENTS);
    for (host, mut client) in clients {
        client.sessions.sort_unstable();
        client.sessions.dedup();
        table.push(
            host,
            vec![
                host.into(),
                client.connections.into(),
                client.sessions.len().into(),
                client.rate.map(rate).into(),
                client.queued.into(),
                client.greatest_latency.map(decimal).into(),
                names(&client.servers).into(),
            ],
        );
    }
    table.note = note(&sample.reports);
    table
}

fn names(servers: &[&ProbedServer]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn of_sessions(sample: &Sample, before: &RateBaseline) -> Table {
    let rates: BTreeMap<_, _> = connections(&sample.reports)
        .filter_map(|(server, connection)| {
            Some((connection.session?, before.of_connection(server, connection)?))
        })
        .collect();
    let mut table = Table::new(SESSIONS);
    for (id, session) in sessions::join(&sample.reports).by_id {
        table.push(
            id.to_string(),
            vec![
                id.to_string().into(),
                session.address.into(),
                session.server.into(),
                session.timeout.map(span).into(),
                rates.get(&id.get()).copied().map(rate).into(),
                session.last_operation.into(),
                session.ephemerals.len().into(),
                session.silent.map(span).into(),
            ],
        );
    }
    table.note = note(&sample.reports);
    table
}

fn watches(sample: &Sample) -> Table {
    let mut paths: BTreeMap<&str, (usize, Vec<&ProbedServer>)> = BTreeMap::new();
    for report in &sample.reports {
        for (path, sessions) in report.wchp.iter().flatten() {
            let (count, servers) = paths.entry(path).or_default();
            *count += sessions.len();
            servers.push(&report.server);
        }
    }
    let mut table = Table::new(WATCHES);
    for (path, (count, servers)) in paths {
        table.push(path, vec![path.into(), count.into(), names(&servers).into()]);
    }
    table.note = note(&sample.reports);
    table
}

/// Returns everything about a row.
pub(crate) fn detail(screen: ScreenName, sample: &Sample, key: &str) -> Detail {
    let lines = match screen {
        ScreenName::Servers => of_server(sample, key),
        ScreenName::Clients => of_client(sample, key),
        ScreenName::Sessions => of_session(sample, key),
        ScreenName::Watches => of_path(sample, key),
        ScreenName::Recipes | ScreenName::Tree | ScreenName::Hot => Vec::new(),
    };
    Detail { title: key.to_owned(), lines, first: 0 }
}

fn of_server(sample: &Sample, key: &str) -> Vec<String> {
    let report = sample.reports.iter().find(|report| report.server.to_string() == key);
    let Some(report) = report else { return Vec::new() };
    let version = report.srvr.as_ref().ok().and_then(|srvr| srvr.version.as_ref());
    let known = [
        ("version", version.cloned()),
        ("zxid", report.zxid().map(node::hex)),
        ("id", report.server.id.map(|id| id.to_string())),
    ];
    let known =
        known.into_iter().filter_map(|(name, value)| Some(format!("{name:<10} {}", value?)));
    let troubles = report.refused().into_iter();
    let troubles = troubles.map(|(word, trouble)| format!("{:<10} {trouble}", word.text()));
    let metrics = report.mntr.iter().flat_map(|mntr| &mntr.metrics);
    let metrics = metrics.map(|(name, value)| format!("{name:<50} {value}"));
    known.chain(troubles).chain(metrics).collect()
}

fn of_client(sample: &Sample, key: &str) -> Vec<String> {
    let of_host = connections(&sample.reports).filter(|(_, found)| host(&found.address) == key);
    of_host.map(|(server, connection)| line(server, connection)).collect()
}

fn line(server: &ProbedServer, connection: &ClientConnection) -> String {
    let session = connection.session.map(|id| SessionId::new(id).to_string());
    let operation = connection.last_operation.as_deref().unwrap_or("–");
    let ClientConnection { address, received, queued, .. } = connection;
    format!(
        "{address:<22} {:<18} on {server}: {received} requests, {queued} queued, last {operation}",
        session.unwrap_or_default()
    )
}

fn of_session(sample: &Sample, key: &str) -> Vec<String> {
    let sessions = sessions::join(&sample.reports).by_id;
    let found = sessions.into_iter().find(|(id, _)| id.to_string() == key);
    let Some((id, session)) = found else { return Vec::new() };
    let connections = connections(&sample.reports);
    let own = connections.filter(|(_, connection)| connection.session == Some(id.get()));
    let mut lines: Vec<_> = own.map(|(server, connection)| line(server, connection)).collect();
    lines.extend(session.expires.map(|at| format!("expires at {at} unless it is heard of")));
    lines.push(format!("{} ephemeral nodes", session.ephemerals.len()));
    lines.extend(session.ephemerals);
    lines
}

fn of_path(sample: &Sample, key: &str) -> Vec<String> {
    let sessions = sessions::join(&sample.reports).by_id;
    let mut lines = Vec::new();
    for report in &sample.reports {
        let lists = report.wchp.iter().flatten().filter(|(path, _)| path == key);
        for id in lists.flat_map(|(_, sessions)| sessions) {
            let client = sessions.iter().find(|(session, _)| session.to_string() == *id);
            let address = client.and_then(|(_, session)| session.address.as_deref());
            lines.push(format!("{id:<18} {} on {}", address.unwrap_or("–"), report.server));
        }
    }
    lines
}

/// Returns the keys.
pub(crate) fn help() -> Detail {
    let lines = [
        "1 to 7     servers, clients, sessions, watches, recipes, tree, hot paths; Tab is the next",
        "↑ ↓ j k    select; PgUp, PgDn, g and G go further",
        "Enter      open the row: metrics, connections, ephemeral nodes, watching sessions, why",
        "Esc        close, or clear the filter",
        "/          filter the rows by text; Enter keeps it, Esc clears it",
        "s r        order by the next column; reverse the order",
        "y          copy the path or the name of the row to the clipboard of the terminal",
        ":          a screen, a path of the tree, `filter TEXT`, `sort COLUMN`, `q`, or a command of",
        "           zkc, such as `get /a`; ↑ is the last one",
        "p          pause",
        "q          quit",
        "",
        "tree: Enter or l goes to the children or shows the data, h or ← to the parent, e edits",
        "Commands and e change nodes only with --write.",
        "",
        "REQ/s      requests a second between two samples; no counter of a server is reset",
        "LAG        transactions behind the leader",
        "SILENT     time since the last response, at least",
        "EVENTS/s   changes of the node a second, from a watch of the whole tree (ZooKeeper 3.6)",
    ];
    Detail { title: "keys".to_owned(), lines: lines.map(str::to_owned).to_vec(), first: 0 }
}
