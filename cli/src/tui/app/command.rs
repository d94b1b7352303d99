//! The command line of the screens.

use super::AppState;
use crate::tui::line::{self, TuiLine};
use crate::tui::model::{KeyPress, ScreenName, TuiEffect};

impl AppState {
    pub(super) fn type_command(&mut self, key: KeyPress) -> Option<TuiEffect> {
        let command = self.command.as_mut()?;
        match key {
            KeyPress::Char(letter) => command.push(letter),
            KeyPress::Up => command.clone_from(&self.last_command),
            KeyPress::Backspace if !command.is_empty() => drop(command.pop()),
            KeyPress::Backspace | KeyPress::Escape => self.command = None,
            KeyPress::Enter => {
                let line = self.command.take()?;
                self.last_command.clone_from(&line);
                return self.run(line::parse(&line));
            }
            _ => {}
        }
        None
    }

    fn run(&mut self, line: TuiLine) -> Option<TuiEffect> {
        match line {
            TuiLine::Nothing => None,
            TuiLine::Quit => Some(TuiEffect::Quit),
            TuiLine::Show(screen) => self.show(screen),
            TuiLine::Go(path) => {
                self.screen = ScreenName::Tree;
                self.enter(crate::path::normal(&path))
            }
            TuiLine::Filter(filter) => {
                self.filter = filter;
                self.selections[self.screen.index()].reset();
                None
            }
            TuiLine::Sort(title) => {
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
            TuiLine::Command(line) => Some(TuiEffect::Run(line)),
        }
    }
}
