//! The terminal: its modes, and its keys.

use std::io::{self, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, terminal};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::sync::mpsc;

use super::model::{Event, Key};

/// The longest time until the thread that reads keys notices that it should end.
const POLL: Duration = Duration::from_millis(50);

/// The terminal in raw mode, on its alternate screen. Dropping it restores the terminal, also when
/// a panic unwinds.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on the terminal is restored, also after an error.
        let restore = Restore;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        std::mem::forget(restore);
        Ok(Self { terminal })
    }

    /// Draws everything anew the next time. `Terminal::clear` would ask the terminal for its
    /// cursor, and the answer would go to the thread that reads the keys.
    pub(crate) fn repaint(&mut self) -> io::Result<()> {
        execute!(io::stdout(), terminal::Clear(terminal::ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(Restore);
    }
}

struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        drop(execute!(io::stdout(), LeaveAlternateScreen, cursor::Show));
        drop(terminal::disable_raw_mode());
    }
}

/// Copies a text to the clipboard of the terminal, if the terminal allows it (OSC 52).
pub(crate) fn copy(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    write!(out, "\u{1b}]52;c;{}\u{7}", STANDARD.encode(text))?;
    out.flush()
}

/// The keys, read by a thread of their own. Dropping it ends the thread.
pub(crate) struct Keys {
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    pub(crate) fn read() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                let event = match event::poll(POLL) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                // The end of the channel tells that the terminal is gone.
                let Ok(event) = event else { return };
                if let Some(event) = translate(&event)
                    && sender.send(event).is_err()
                {
                    return;
                }
            }
        });
        Self { events, ended, thread: Some(thread) }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            drop(thread.join());
        }
    }
}

fn translate(event: &event::Event) -> Option<Event> {
    match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Event::Key),
        event::Event::Resize(..) => Some(Event::Resized),
        _ => None,
    }
}

fn key_of(key: &KeyEvent) -> Option<Key> {
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
