//! The state of the screens, and how keys and samples change it. Without I/O.

mod command;

use std::collections::VecDeque;
use std::time::Duration;

use crate::ensemble::flw::Word;
use crate::ensemble::health;
use crate::ensemble::probe::Report;
use crate::ensemble::rates::Before;
use crate::tui::hot::{self, Hot};
use crate::tui::model::{Detail, Effect, Event, Key, Load, Sample, Screen};
use crate::tui::recipes::{self, Recipes};
use crate::tui::screens;
use crate::tui::table::{Selection, Table};
use crate::tui::tree::Tree;

/// The number of samples in the graphs.
const HISTORY: usize = 120;
/// The rows of a page.
const PAGE: isize = 10;

/// The state of the screens.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// The name of the context, or the servers.
    pub(crate) name: String,
    pub(crate) interval: Duration,
    pub(crate) screen: Screen,
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
    pub(crate) before: Before,
    pub(crate) history: VecDeque<Load>,
    /// The epochs that began since the start.
    pub(crate) elections: u64,
    epoch: Option<i64>,
    pub(crate) tree: Tree,
    pub(crate) recipes: Recipes,
    pub(crate) hot: Hot,
}

impl State {
    pub(crate) fn new(name: String, interval: Duration, can_write: bool) -> Self {
        Self {
            name,
            interval,
            screen: Screen::Servers,
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
            before: Before::default(),
            history: VecDeque::new(),
            elections: 0,
            epoch: None,
            tree: Tree::default(),
            recipes: Recipes::default(),
            hot: Hot::default(),
        }
    }

    /// Returns the words that the present screen needs. `wchp` and `dump` cost a server more than
    /// the others, so only their screens ask them.
    pub(crate) const fn words(&self) -> &'static [Word] {
        match self.screen {
            Screen::Servers => &[Word::Srvr, Word::Mntr, Word::Cons],
            Screen::Clients => &[Word::Srvr, Word::Cons],
            Screen::Sessions => &[Word::Srvr, Word::Cons, Word::Dump],
            Screen::Watches => &[Word::Srvr, Word::Cons, Word::Wchs, Word::Wchp],
            Screen::Recipes | Screen::Tree | Screen::Hot => &[Word::Srvr],
        }
    }

    /// Returns the selection of the present screen.
    pub(crate) const fn selection(&self) -> &Selection {
        &self.selections[self.screen.index()]
    }

    /// Returns the table of the present screen, filtered and ordered.
    pub(crate) fn table(&self) -> Table {
        let table = match (self.screen, &self.sample) {
            (Screen::Tree, _) => self.tree.table(),
            (Screen::Hot, _) => self.hot.table(),
            (Screen::Recipes, sample) => {
                self.recipes.table(sample.as_ref().map_or(0, |sample| sample.taken))
            }
            (screen, Some(sample)) => screens::table(screen, sample, &self.before),
            (screen, None) => Table::new(screens::columns(screen)),
        };
        self.selection().apply(table, &self.filter)
    }

    /// Returns the state after an event, and the effect that follows.
    pub(crate) fn step(mut self, event: Event) -> (Self, Option<Effect>) {
        let effect = match event {
            Event::Key(Key::Interrupt) => Some(Effect::Quit),
            Event::Key(key) => self.key(key),
            Event::Sample(sample) => {
                if self.paused {
                    return (self, None);
                }
                let at = sample.at;
                self.take(sample);
                let looks = self.screen == Screen::Recipes && self.recipes.are_old(at);
                looks.then_some(Effect::Inspect)
            }
            Event::Inspected(answer) => {
                let at = self.sample.as_ref().map(|sample| sample.at);
                self.recipes.inspected(at.unwrap_or_default(), answer);
                None
            }
            Event::Listed(path, answer) => {
                self.tree.listed(&path, answer);
                None
            }
            Event::Read(path, answer) => {
                let text = answer.unwrap_or_else(|error| error);
                let lines = text.lines().map(str::to_owned).collect();
                self.detail = Some(Detail { title: path, lines, first: 0 });
                None
            }
            Event::Followed(window) => {
                if !self.paused {
                    self.hot.take(window);
                }
                None
            }
            Event::Ran(line, answer) => {
                let text = answer.unwrap_or_else(|error| error);
                if text.trim().is_empty() {
                    self.message = Some(format!("done: {line}"));
                } else {
                    let lines = text.lines().map(str::to_owned).collect();
                    self.detail = Some(Detail { title: line, lines, first: 0 });
                }
                // It may have changed the nodes on the screen.
                (self.screen == Screen::Tree).then(|| Effect::List(self.tree.path.clone()))
            }
            Event::Edited(path, answer) => {
                self.message = Some(answer.map_or_else(|why| why, |()| format!("edited {path}")));
                Some(Effect::List(self.tree.path.clone()))
            }
            Event::Resized => None,
        };
        (self, effect)
    }

    fn key(&mut self, key: Key) -> Option<Effect> {
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
            self.before = Before::new(&previous.reports, passed);
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
        let zxid = health::leader(&sample.reports).and_then(Report::zxid);
        if let Some(epoch) = zxid.map(|zxid| zxid >> 32) {
            self.elections += u64::from(self.epoch.is_some_and(|before| before < epoch));
            self.epoch = Some(epoch);
        }
        self.sample = Some(sample);
    }

    fn type_filter(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Char(letter) => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.filter.clear();
                self.typing = false;
            }
            _ => {}
        }
        self.selections[self.screen.index()].reset();
        None
    }

    fn scroll(&mut self, key: Key) -> Option<Effect> {
        let detail = self.detail.as_mut()?;
        let last = detail.lines.len().saturating_sub(1);
        let by = |by: isize| detail.first.saturating_add_signed(by).min(last);
        detail.first = match key {
            Key::Down | Key::Char('j') => by(1),
            Key::Up | Key::Char('k') => by(-1),
            Key::PageDown | Key::Char(' ') => by(PAGE),
            Key::PageUp => by(-PAGE),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            Key::Char('q') => return Some(Effect::Quit),
            Key::Escape | Key::Enter | Key::Backspace | Key::Left | Key::Char('h' | '?') => {
                self.detail = None;
                return None;
            }
            _ => return None,
        };
        None
    }

    fn press(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('p') => self.paused = !self.paused,
            Key::Char('/') => self.typing = true,
            Key::Char(':') => self.command = Some(String::new()),
            Key::Char('y') => return self.copy(),
            Key::Char('e') if self.screen == Screen::Tree => return self.edit(),
            Key::Char('s') => {
                let columns = self.table().columns.len();
                let selection = &mut self.selections[self.screen.index()];
                selection.sort = (selection.sort + 1) % columns;
            }
            Key::Char('r') => {
                let selection = &mut self.selections[self.screen.index()];
                selection.reversed = !selection.reversed;
            }
            Key::Char('?') => self.detail = Some(screens::help()),
            Key::Escape => self.filter.clear(),
            Key::Char(digit) if digit.is_ascii_digit() => {
                let screen = Screen::ALL.into_iter().find(|(_, key, _)| *key == digit);
                return screen.and_then(|(screen, ..)| self.show(screen));
            }
            Key::Tab => {
                let next = (self.screen.index() + 1) % Screen::ALL.len();
                return self.show(Screen::ALL[next].0);
            }
            Key::Enter | Key::Right | Key::Char('l') => return self.open(),
            Key::Left | Key::Backspace | Key::Char('h') if self.screen == Screen::Tree => {
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
            Screen::Tree => crate::path::join(&self.tree.path, key),
            _ => key.clone(),
        })
    }

    fn copy(&mut self) -> Option<Effect> {
        let selected = self.selected()?;
        self.message = Some(format!("copied {selected}"));
        Some(Effect::Copy(selected))
    }

    fn edit(&mut self) -> Option<Effect> {
        if !self.can_write {
            self.message = Some("read-only: start with --write to change nodes".to_owned());
            return None;
        }
        self.selected().map(Effect::Edit)
    }

    fn go(&mut self, key: Key) {
        let by = match key {
            Key::Down | Key::Char('j') => 1,
            Key::Up | Key::Char('k') => -1,
            Key::PageDown | Key::Char(' ') => PAGE,
            Key::PageUp => -PAGE,
            Key::Home | Key::Char('g') => isize::MIN,
            Key::End | Key::Char('G') => isize::MAX,
            _ => return,
        };
        let table = self.table();
        self.selections[self.screen.index()].step(&table, by);
    }

    /// Changes the screen. The tree is listed, and the others need other words.
    fn show(&mut self, screen: Screen) -> Option<Effect> {
        self.screen = screen;
        self.filter.clear();
        Some(match screen {
            Screen::Tree => Effect::List(self.tree.path.clone()),
            Screen::Recipes => Effect::Inspect,
            _ => Effect::Ask,
        })
    }

    /// Opens the selected row.
    fn open(&mut self) -> Option<Effect> {
        let table = self.table();
        let row = &table.rows[self.selection().place(&table)?];
        if self.screen == Screen::Recipes {
            return Some(Effect::Why(row.key.clone()));
        }
        if self.screen == Screen::Hot {
            return Some(Effect::Read(row.key.clone()));
        }
        if self.screen != Screen::Tree {
            let sample = self.sample.as_ref()?;
            self.detail = Some(screens::detail(self.screen, sample, &row.key));
            return None;
        }
        let path = crate::path::join(&self.tree.path, &row.key);
        if self.tree.is_leaf(&row.key) {
            return Some(Effect::Read(path));
        }
        self.enter(path)
    }

    /// Goes to the parent of the listed node, and selects the node there.
    fn leave(&mut self) -> Option<Effect> {
        let (parent, name) =
            self.tree.path.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
        let (parent, name) = (parent.to_owned(), name.to_owned());
        let effect = self.enter(if parent.is_empty() { "/".to_owned() } else { parent });
        self.selections[Screen::Tree.index()].select(name);
        effect
    }

    fn enter(&mut self, path: String) -> Option<Effect> {
        self.tree.enter(path.clone());
        self.filter.clear();
        self.selections[Screen::Tree.index()].reset();
        Some(Effect::List(path))
    }
}

#[cfg(test)]
pub(crate) mod tests;
