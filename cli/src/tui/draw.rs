//! Draws the state.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState, Wrap};
use zk_curator_ops::ensemble::health;
use zk_curator_ops::ensemble::probe::ProbeReport;

use super::app::AppState;
use super::model::{Detail, Sample, ScreenName};
use super::table;
use crate::node;
use crate::output::{printable, time};

/// The height of the graphs, with their borders.
const GRAPHS: u16 = 5;

/// The least width of a column that takes the rest of the line.
const REST: u16 = 20;

/// Draws the whole screen.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &AppState, color: bool) {
    let graphs = if state.screen == ScreenName::Servers { GRAPHS } else { 0 };
    let [head, body, graph, problem, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(graphs),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(headline(state)).style(bold), head);
    table(frame, state, body);
    if graphs > 0 {
        sparklines(frame, state, graph);
    }
    let alarm = if color { Style::new().fg(Color::Red) } else { bold };
    frame.render_widget(Paragraph::new(trouble(state)).style(alarm), problem);
    frame.render_widget(Paragraph::new(footer(state, foot.width)), foot);
    if let Some(detail) = &state.detail {
        popup(frame, detail, body);
    }
}

fn headline(state: &AppState) -> String {
    let AppState { name, sample, interval, paused, .. } = state;
    let every = humantime::format_duration(*interval);
    let Some(sample) = sample else { return format!("zkc top ─ {name} ─ asking …") };
    let leader = health::leader(&sample.reports);
    let quorum = match leader {
        Some(leader) if sample.reports.len() == 1 => leader.server.to_string(),
        Some(leader) => format!("{} servers, leader {}", sample.reports.len(), leader.server),
        None => format!("{} servers, NO QUORUM", sample.reports.len()),
    };
    let zxid = leader.and_then(ProbeReport::zxid);
    let zxid = zxid.map(|zxid| format!(" ─ zxid {} epoch {}", node::hex(zxid), zxid >> 32));
    let clock = time::rfc3339(sample.taken).unwrap_or_default();
    let clock = clock.get(11..19).unwrap_or_default();
    let pause = if *paused { " ─ PAUSED" } else { "" };
    format!(
        "zkc top ─ {name} ─ {quorum}{} ─ {clock} UTC ─ every {every}{pause}",
        zxid.unwrap_or_default()
    )
}

fn table(frame: &mut Frame<'_>, state: &AppState, area: Rect) {
    let table = state.table();
    let selection = state.selection();
    let shown = fitting(table.columns, selection.sort, area.width.saturating_sub(2));
    let widths = shown.iter().map(|place| match table.columns[*place].width {
        0 => Constraint::Min(REST),
        width => Constraint::Length(width),
    });
    let aligned = |text: String, right: bool| {
        let alignment = if right { Alignment::Right } else { Alignment::Left };
        Cell::from(Line::from(text).alignment(alignment))
    };
    let titles = shown.iter().map(|place| {
        let column = table.columns[*place];
        let mark = match (*place == selection.sort, selection.reversed) {
            (true, false) => "▾",
            (true, true) => "▴",
            _ => "",
        };
        aligned(format!("{}{mark}", column.title), column.right)
    });
    let rows = table.rows.iter().map(|row| {
        let cells = shown.iter().filter_map(|place| Some((row.cells.get(*place)?, *place)));
        Row::new(
            cells.map(|(cell, place)| aligned(printable(cell.text()), table.columns[place].right)),
        )
    });
    let title = match state.screen {
        ScreenName::Tree => state.tree.path.clone(),
        screen => name(screen).to_owned(),
    };
    let block = Block::bordered().title(format!(" {} ", printable(&title)));
    let block = block.title_bottom(Line::from(count(state, &table)).right_aligned());
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let widget = Table::new(rows, widths)
        .header(Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(1)
        .row_highlight_style(reversed)
        .block(block);
    let mut selected = TableState::default().with_selected(selection.place(&table));
    frame.render_stateful_widget(widget, area, &mut selected);
}

/// Returns the columns that fit into a width, at least one. The name and the column of the order
/// come first, and spare columns last.
fn fitting(columns: &[table::TableColumn], sort: usize, width: u16) -> Vec<usize> {
    let mut places: Vec<_> = (0..columns.len()).collect();
    places.sort_by_key(|place| (*place > 0 && *place != sort, columns[*place].spare));
    let mut left = width;
    let fit = places.iter().take_while(|place| {
        let needed = match columns[**place].width {
            0 => REST,
            width => width,
        };
        let fits = needed <= left;
        // One space between columns.
        left = left.saturating_sub(needed + 1);
        fits
    });
    let fit = fit.count().max(1);
    places.truncate(fit);
    places.sort_unstable();
    places
}

fn name(screen: ScreenName) -> &'static str {
    ScreenName::ALL.into_iter().find(|(one, ..)| *one == screen).map_or("", |(_, _, name)| name)
}

fn count(state: &AppState, table: &table::Table) -> String {
    match state.filter.as_str() {
        "" => format!(" {} ", table.rows.len()),
        filter => format!(" {} with {filter:?} ", table.rows.len()),
    }
}

fn sparklines(frame: &mut Frame<'_>, state: &AppState, area: Rect) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
    let last = state.history.back();
    let requests = last.map_or(0.0, |load| load.requests);
    let latency = last.map_or(0.0, |load| load.latency);
    let graph = |title: String, area: Rect, value: fn(f64, f64) -> f64| {
        let width = usize::from(area.width.saturating_sub(2));
        let values = state.history.iter().rev().take(width);
        // Tenths, because a graph has whole numbers. Casts of floats saturate.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a graph")]
        let data: Vec<_> =
            values.map(|load| (value(load.requests, load.latency) * 10.0) as u64).collect();
        let data: Vec<_> = data.into_iter().rev().collect();
        Sparkline::default().block(Block::bordered().title(title)).data(data)
    };
    let elections = match state.elections {
        0 => String::new(),
        count => format!(", {count} elections seen"),
    };
    let title = format!(" requests {requests:.0}/s{elections} ");
    frame.render_widget(graph(title, left, |requests, _| requests), left);
    let title = format!(" greatest average latency {latency:.1} ms ");
    frame.render_widget(graph(title, right, |_, latency| latency), right);
}

/// Returns the problems of the ensemble, and the note of the table.
fn trouble(state: &AppState) -> String {
    if let Some(message) = &state.message {
        return printable(message);
    }
    let problems = |sample: &Sample| health::problems(&sample.reports, sample.voters);
    let problems = state.sample.as_ref().map(problems).unwrap_or_default();
    let problem = problems.split_first().map(|(first, more)| match more.len() {
        0 => format!("! {first}"),
        more => format!("! {first} (and {more} more)"),
    });
    let parts: Vec<_> = problem.into_iter().chain(state.table().note).collect();
    printable(&parts.join(" ─ "))
}

fn footer(state: &AppState, width: u16) -> Line<'static> {
    if let Some(command) = &state.command {
        return Line::from(format!(":{}▏", printable(command)));
    }
    if state.typing {
        return Line::from(format!("filter: {}▏", printable(&state.filter)));
    }
    let lines = [
        keys(state, "  ", "  ─ / filter  : command  enter open  ? help  q quit"),
        keys(state, " ", " ─ ? help q quit"),
        Line::from("1-7 screens  ? help  q quit"),
    ];
    let fitting = lines.iter().find(|line| line.width() <= usize::from(width));
    fitting.unwrap_or(&lines[2]).clone()
}

/// Returns the keys of the screens, and others.
fn keys(state: &AppState, gap: &'static str, others: &'static str) -> Line<'static> {
    let mut spans = Vec::new();
    for (screen, key, name) in ScreenName::ALL {
        if !spans.is_empty() {
            spans.push(Span::raw(gap));
        }
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let style = if screen == state.screen { reversed } else { Style::new() };
        spans.push(Span::styled(format!("{key} {name}"), style));
    }
    spans.push(Span::raw(others));
    Line::from(spans)
}

fn popup(frame: &mut Frame<'_>, detail: &Detail, within: Rect) {
    let area = within.inner(ratatui::layout::Margin { horizontal: 3, vertical: 1 });
    let lines = detail.lines.iter().skip(detail.first).take(usize::from(area.height));
    let lines: Vec<_> = lines.map(|line| Line::from(printable(line))).collect();
    let block = Block::bordered().title(format!(" {} ", printable(&detail.title)));
    let block = block.title_bottom(Line::from(" esc closes ").right_aligned());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}
