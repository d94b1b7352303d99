//! The command line of the screens.

use super::State;
use crate::tui::line::{self, Line};
use crate::tui::model::{Effect, Key, Screen};

impl State {
    pub(super) fn type_command(&mut self, key: Key) -> Option<Effect> {
        let command = self.command.as_mut()?;
        match key {
            Key::Char(letter) => command.push(letter),
            Key::Up => command.clone_from(&self.last_command),
            Key::Backspace if !command.is_empty() => drop(command.pop()),
            Key::Backspace | Key::Escape => self.command = None,
            Key::Enter => {
                let line = self.command.take()?;
                self.last_command.clone_from(&line);
                return self.run(line::parse(&line));
            }
            _ => {}
        }
        None
    }

    fn run(&mut self, line: Line) -> Option<Effect> {
        match line {
            Line::Nothing => None,
            Line::Quit => Some(Effect::Quit),
            Line::Show(screen) => self.show(screen),
            Line::Go(path) => {
                self.screen = Screen::Tree;
                self.enter(crate::path::normal(&path))
            }
            Line::Filter(filter) => {
                self.filter = filter;
                self.selections[self.screen.index()].reset();
                None
            }
            Line::Sort(title) => {
                let columns = self.table().columns;
                let place = columns
                    .iter()
                    .position(|column| column.title.to_lowercase().starts_with(&title));
                match place {
                    Some(place) => self.selections[self.screen.index()].sort = place,
                    None => self.message = Some(format!("no column {title}")),
                }
                None
            }
            Line::Command(line) => Some(Effect::Run(line)),
        }
    }
}
