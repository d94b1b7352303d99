//! The state of the screens, and how keys and samples change it. Without I/O.

mod command;

use std::collections::VecDeque;
use std::time::Duration;

use zk_curator_ops::ensemble::health;
use zk_curator_ops::ensemble::probe::ProbeReport;
use zk_curator_ops::ensemble::rates::RateBaseline;
use zk_curator_ops::ensemble::words::FourLetterWord;

use crate::tui::hot::{self, Hot};
use crate::tui::model::{Detail, KeyPress, Load, Sample, ScreenName, TuiEffect, TuiEvent};
use crate::tui::recipes::{self, Recipes};
use crate::tui::screens;
use crate::tui::table::{Selection, Table};
use crate::tui::tree::ListedTreeNode;

/// The number of samples in the graphs.
const HISTORY: usize = 120;
/// The rows of a page.
const PAGE: isize = 10;

/// The state of the screens.
#[derive(Debug, Clone)]
pub(crate) struct AppState {
    /// The name of the context, or the servers.
    pub(crate) name: String,
    pub(crate) interval: Duration,
    pub(crate) screen: ScreenName,
    selections: [Selection; 7],
    pub(crate) filter: String,
    /// Keys are the filter.
    pub(crate) typing: bool,
    /// Keys are this command line.
    pub(crate) command: Option<String>,
    /// The command line before.
    last_command: String,
    /// The outcome of the last key, until the next one.
    pub(crate) message: Option<String>,
    /// Nodes may be changed.
    can_write: bool,
    pub(crate) paused: bool,
    pub(crate) detail: Option<Detail>,
    pub(crate) sample: Option<Sample>,
    pub(crate) before: RateBaseline,
    pub(crate) history: VecDeque<Load>,
    /// The epochs that began since the start.
    pub(crate) elections: u64,
    epoch: Option<i64>,
    pub(crate) tree: ListedTreeNode,
    pub(crate) recipes: Recipes,
    pub(crate) hot: Hot,
}

impl AppState {
    pub(crate) fn new(name: String, interval: Duration, can_write: bool) -> Self {
        Self {
            name,
            interval,
            screen: ScreenName::Servers,
            selections: [
                Selection::sorted_by(0),
                Selection::sorted_by(screens::CLIENT_RATE),
                Selection::sorted_by(screens::SESSION_RATE),
                Selection::sorted_by(1),
                Selection::sorted_by(recipes::WAITING),
                Selection::sorted_by(0),
                Selection::sorted_by(hot::RATE),
            ],
            filter: String::new(),
            typing: false,
            command: None,
            last_command: String::new(),
            message: None,
            can_write,
            paused: false,
            detail: None,
            sample: None,
            before: RateBaseline::default(),
            history: VecDeque::new(),
            elections: 0,
            epoch: None,
            tree: ListedTreeNode::default(),
            recipes: Recipes::default(),
            hot: Hot::default(),
        }
    }

    /// Returns the words that the present screen needs. `wchp` and `dump` cost a server more than
    /// the others, so only their screens ask them.
    pub(crate) const fn words(&self) -> &'static [FourLetterWord] {
        match self.screen {
            ScreenName::Servers => {
                &[FourLetterWord::Srvr, FourLetterWord::Mntr, FourLetterWord::Cons]
            }
            ScreenName::Clients => &[FourLetterWord::Srvr, FourLetterWord::Cons],
            ScreenName::Sessions => {
                &[FourLetterWord::Srvr, FourLetterWord::Cons, FourLetterWord::Dump]
            }
            ScreenName::Watches => &[
                FourLetterWord::Srvr,
                FourLetterWord::Cons,
                FourLetterWord::Wchs,
                FourLetterWord::Wchp,
            ],
            ScreenName::Recipes | ScreenName::Tree | ScreenName::Hot => &[FourLetterWord::Srvr],
        }
    }

    /// Returns the selection of the present screen.
    pub(crate) const fn selection(&self) -> &Selection {
        &self.selections[self.screen.index()]
    }

    /// Returns the table of the present screen, filtered and ordered.
    pub(crate) fn table(&self) -> Table {
        let table = match (self.screen, &self.sample) {
            (ScreenName::Tree, _) => self.tree.table(),
            (ScreenName::Hot, _) => self.hot.table(),
            (ScreenName::Recipes, sample) => {
                self.recipes.table(sample.as_ref().map_or(0, |sample| sample.taken))
            }
            (screen, Some(sample)) => screens::table(screen, sample, &self.before),
            (screen, None) => Table::new(screens::columns(screen)),
        };
        self.selection().apply(table, &self.filter)
    }

    /// Returns the state after an event, and the effect that follows.
    pub(crate) fn step(mut self, event: TuiEvent) -> (Self, Option<TuiEffect>) {
        let effect = match event {
            TuiEvent::Key(KeyPress::Interrupt) => Some(TuiEffect::Quit),
            TuiEvent::Key(key) => self.key(key),
            TuiEvent::Sample(sample) => {
                if self.paused {
                    return (self, None);
                }
                let at = sample.at;
                self.take(sample);
                let looks = self.screen == ScreenName::Recipes && self.recipes.are_old(at);
                looks.then_some(TuiEffect::Inspect)
            }
            TuiEvent::Inspected(answer) => {
                let at = self.sample.as_ref().map(|sample| sample.at);
                self.recipes.inspected(at.unwrap_or_default(), answer);
                None
            }
            TuiEvent::Listed(path, answer) => {
                self.tree.listed(&path, answer);
                None
            }
            TuiEvent::Read(path, answer) => {
                let text = answer.unwrap_or_else(|error| error);
                let lines = text.lines().map(str::to_owned).collect();
                self.detail = Some(Detail { title: path, lines, first: 0 });
                None
            }
            TuiEvent::Followed(window) => {
                if !self.paused {
                    self.hot.take(window);
                }
                None
            }
            TuiEvent::Ran(line, answer) => {
                let text = answer.unwrap_or_else(|error| error);
                if text.trim().is_empty() {
                    self.message = Some(format!("done: {line}"));
                } else {
                    let lines = text.lines().map(str::to_owned).collect();
                    self.detail = Some(Detail { title: line, lines, first: 0 });
                }
                // It may have changed the nodes on the screen.
                (self.screen == ScreenName::Tree).then(|| TuiEffect::List(self.tree.path.clone()))
            }
            TuiEvent::Edited(path, answer) => {
                self.message = Some(answer.map_or_else(|why| why, |()| format!("edited {path}")));
                Some(TuiEffect::List(self.tree.path.clone()))
            }
            TuiEvent::Resized => None,
        };
        (self, effect)
    }

    fn key(&mut self, key: KeyPress) -> Option<TuiEffect> {
        self.message = None;
        if self.command.is_some() {
            self.type_command(key)
        } else if self.typing {
            self.type_filter(key)
        } else if self.detail.is_some() {
            self.scroll(key)
        } else {
            self.press(key)
        }
    }

    fn take(&mut self, sample: Sample) {
        if let Some(previous) = &self.sample {
            let passed = sample.at.saturating_sub(previous.at);
            self.before = RateBaseline::new(&previous.reports, passed);
        }
        let requests =
            sample.reports.iter().filter_map(|report| self.before.requests(report)).sum();
        let latencies =
            sample.reports.iter().filter_map(|report| report.srvr.as_ref().ok()?.latency);
        let latency = latencies.map(|(average, _)| average).fold(0.0, f64::max);
        if self.sample.is_some() {
            self.history.push_back(Load { requests, latency });
            while self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        let zxid = health::leader(&sample.reports).and_then(ProbeReport::zxid);
        if let Some(epoch) = zxid.map(|zxid| zxid >> 32) {
            self.elections += u64::from(self.epoch.is_some_and(|before| before < epoch));
            self.epoch = Some(epoch);
        }
        self.sample = Some(sample);
    }

    fn type_filter(&mut self, key: KeyPress) -> Option<TuiEffect> {
        match key {
            KeyPress::Char(letter) => self.filter.push(letter),
            KeyPress::Backspace => drop(self.filter.pop()),
            KeyPress::Enter => self.typing = false,
            KeyPress::Escape => {
                self.filter.clear();
                self.typing = false;
            }
            _ => {}
        }
        self.selections[self.screen.index()].reset();
        None
    }

    fn scroll(&mut self, key: KeyPress) -> Option<TuiEffect> {
        let detail = self.detail.as_mut()?;
        let last = detail.lines.len().saturating_sub(1);
        let by = |by: isize| detail.first.saturating_add_signed(by).min(last);
        detail.first = match key {
            KeyPress::Down | KeyPress::Char('j') => by(1),
            KeyPress::Up | KeyPress::Char('k') => by(-1),
            KeyPress::PageDown | KeyPress::Char(' ') => by(PAGE),
            KeyPress::PageUp => by(-PAGE),
            KeyPress::Home | KeyPress::Char('g') => 0,
            KeyPress::End | KeyPress::Char('G') => last,
            KeyPress::Char('q') => return Some(TuiEffect::Quit),
            KeyPress::Escape
            | KeyPress::Enter
            | KeyPress::Backspace
            | KeyPress::Left
            | KeyPress::Char('h' | '?') => {
                self.detail = None;
                return None;
            }
            _ => return None,
        };
        None
    }

    fn press(&mut self, key: KeyPress) -> Option<TuiEffect> {
        match key {
            KeyPress::Char('q') => return Some(TuiEffect::Quit),
            KeyPress::Char('p') => self.paused = !self.paused,
            KeyPress::Char('/') => self.typing = true,
            KeyPress::Char(':') => self.command = Some(String::new()),
            KeyPress::Char('y') => return self.copy(),
            KeyPress::Char('e') if self.screen == ScreenName::Tree => return self.edit(),
            KeyPress::Char('s') => {
                let columns = self.table().columns.len();
                let selection = &mut self.selections[self.screen.index()];
                selection.sort = (selection.sort + 1) % columns;
            }
            KeyPress::Char('r') => {
                let selection = &mut self.selections[self.screen.index()];
                selection.reversed = !selection.reversed;
            }
            KeyPress::Char('?') => self.detail = Some(screens::help()),
            KeyPress::Escape => self.filter.clear(),
            KeyPress::Char(digit) if digit.is_ascii_digit() => {
                let screen = ScreenName::ALL.into_iter().find(|(_, key, _)| *key == digit);
                return screen.and_then(|(screen, ..)| self.show(screen));
            }
            KeyPress::Tab => {
                let next = (self.screen.index() + 1) % ScreenName::ALL.len();
                return self.show(ScreenName::ALL[next].0);
            }
            KeyPress::Enter | KeyPress::Right | KeyPress::Char('l') => return self.open(),
            KeyPress::Left | KeyPress::Backspace | KeyPress::Char('h')
                if self.screen == ScreenName::Tree =>
            {
                return self.leave();
            }
            key => self.go(key),
        }
        None
    }

    /// Returns the name of the selected row; in the tree, the path.
    fn selected(&self) -> Option<String> {
        let table = self.table();
        let key = &table.rows[self.selection().place(&table)?].key;
        Some(match self.screen {
            ScreenName::Tree => crate::path::join(&self.tree.path, key),
            _ => key.clone(),
        })
    }

    fn copy(&mut self) -> Option<TuiEffect> {
        let selected = self.selected()?;
        self.message = Some(format!("copied {selected}"));
        Some(TuiEffect::Copy(selected))
    }

    fn edit(&mut self) -> Option<TuiEffect> {
        if !self.can_write {
            self.message = Some("read-only: start with --write to change nodes".to_owned());
            return None;
        }
        self.selected().map(TuiEffect::Edit)
    }

    fn go(&mut self, key: KeyPress) {
        let by = match key {
            KeyPress::Down | KeyPress::Char('j') => 1,
            KeyPress::Up | KeyPress::Char('k') => -1,
            KeyPress::PageDown | KeyPress::Char(' ') => PAGE,
            KeyPress::PageUp => -PAGE,
            KeyPress::Home | KeyPress::Char('g') => isize::MIN,
            KeyPress::End | KeyPress::Char('G') => isize::MAX,
            _ => return,
        };
        let table = self.table();
        self.selections[self.screen.index()].step(&table, by);
    }

    /// Changes the screen. The tree is listed, and the others need other words.
    fn show(&mut self, screen: ScreenName) -> Option<TuiEffect> {
        self.screen = screen;
        self.filter.clear();
        Some(match screen {
            ScreenName::Tree => TuiEffect::List(self.tree.path.clone()),
            ScreenName::Recipes => TuiEffect::Inspect,
            _ => TuiEffect::Ask,
        })
    }

    /// Opens the selected row.
    fn open(&mut self) -> Option<TuiEffect> {
        let table = self.table();
        let row = &table.rows[self.selection().place(&table)?];
        if self.screen == ScreenName::Recipes {
            return Some(TuiEffect::Why(row.key.clone()));
        }
        if self.screen == ScreenName::Hot {
            return Some(TuiEffect::Read(row.key.clone()));
        }
        if self.screen != ScreenName::Tree {
            let sample = self.sample.as_ref()?;
            self.detail = Some(screens::detail(self.screen, sample, &row.key));
            return None;
        }
        let path = crate::path::join(&self.tree.path, &row.key);
        if self.tree.is_leaf(&row.key) {
            return Some(TuiEffect::Read(path));
        }
        self.enter(path)
    }

    /// Goes to the parent of the listed node, and selects the node there.
    fn leave(&mut self) -> Option<TuiEffect> {
        let (parent, name) =
            self.tree.path.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
        let (parent, name) = (parent.to_owned(), name.to_owned());
        let effect = self.enter(if parent.is_empty() { "/".to_owned() } else { parent });
        self.selections[ScreenName::Tree.index()].select(name);
        effect
    }

    fn enter(&mut self, path: String) -> Option<TuiEffect> {
        self.tree.enter(path.clone());
        self.filter.clear();
        self.selections[ScreenName::Tree.index()].reset();
        Some(TuiEffect::List(path))
    }
}

#[cfg(test)]
pub(crate) mod tests;
