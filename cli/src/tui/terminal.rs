//! The terminal: its modes, and its keys.

use std::io::{self, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as threads;
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
use zk_curator_client::internal::OnDrop;

use super::model::{KeyPress, TuiEvent};

/// The longest time until the thread that reads keys notices that it should end.
const POLL: Duration = Duration::from_millis(50);
/// The longest time for which the end of that thread is awaited.
const PATIENCE: Duration = Duration::from_millis(500);

/// The terminal in raw mode, on its alternate screen. Dropping it restores the terminal, also when
/// a panic unwinds.
pub(crate) struct TerminalScreen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl TerminalScreen {
    pub(crate) fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on the terminal is restored, also after an error.
        let restored = OnDrop::new(restore);
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        restored.disarm();
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

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Nothing can be done about a terminal that is gone.
    drop(execute!(io::stdout(), LeaveAlternateScreen, cursor::Show));
    drop(terminal::disable_raw_mode());
}

/// Copies a text to the clipboard of the terminal, if the terminal allows it (OSC 52).
pub(crate) fn copy(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    write!(out, "\u{1b}]52;c;{}\u{7}", STANDARD.encode(text))?;
    out.flush()
}

/// The keys, read by a thread of their own. Dropping it ends the thread.
pub(crate) struct KeyReader {
    pub(crate) events: mpsc::UnboundedReceiver<TuiEvent>,
    _reader: InputReader,
}

impl KeyReader {
    pub(crate) fn read() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        // The end of the channel tells that the terminal is gone.
        let _reader = InputReader::start(move |is_wanted| while is_wanted() && pass_on(&sender) {});
        Self { events, _reader }
    }
}

/// Passes on the next event, if one comes soon. Returns `false` after the last one.
fn pass_on(sender: &mpsc::UnboundedSender<TuiEvent>) -> bool {
    // At the end of the terminal, a read of crossterm does not return.
    let Some(has_input) = input::within(POLL) else { return false };
    let event = match event::poll(Duration::ZERO) {
        // The rest of a long input is read with the next key.
        Ok(false) => return !has_input || input::is_open_after(POLL),
        Ok(true) => event::read(),
        Err(error) => Err(error),
    };
    let Ok(event) = event else { return false };
    translate(&event).is_none_or(|event| sender.send(event).is_ok())
}

/// The input of the terminal.
#[cfg(unix)]
mod input {
    use std::io;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// Waits for input. Returns `false` if there is none, and `None` if the terminal is gone.
    pub(super) fn within(time: Duration) -> Option<bool> {
        wait(time, PollFlags::POLLIN)
    }

    /// Waits for all of this time, and returns `false` as soon as the terminal is gone.
    pub(super) fn is_open_after(time: Duration) -> bool {
        wait(time, PollFlags::empty()).is_some()
    }

    fn wait(time: Duration, wanted: PollFlags) -> Option<bool> {
        let stdin = io::stdin();
        let mut polled = [PollFd::new(stdin.as_fd(), wanted)];
        match poll(&mut polled, PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO)) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Some(false),
            Err(_) => return None,
        }
        let seen = polled[0].revents().unwrap_or(PollFlags::empty());
        let is_gone =
            seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL);
        (!is_gone).then(|| seen.contains(PollFlags::POLLIN))
    }
}

#[cfg(not(unix))]
mod input {
    use std::time::Duration;

    use crossterm::event;

    pub(super) fn within(time: Duration) -> Option<bool> {
        event::poll(time).ok()
    }

    pub(super) const fn is_open_after(_: Duration) -> bool {
        true
    }
}

/// A thread that reads. Dropping it ends the thread, or leaves it to the end of the process if it
/// does not return: a read of half a key waits for the other half.
struct InputReader {
    is_unwanted: Arc<AtomicBool>,
    /// Closed at the end of the thread.
    running: threads::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl InputReader {
    /// Starts the thread. Its function ends when it is no longer wanted.
    fn start(read: impl FnOnce(&dyn Fn() -> bool) + Send + 'static) -> Self {
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_unwanted);
        let (runs, running) = threads::channel();
        let thread = std::thread::spawn(move || {
            let _runs: threads::Sender<()> = runs;
            read(&|| !flag.load(Ordering::Relaxed));
        });
        Self { is_unwanted, running, thread: Some(thread) }
    }
}

impl Drop for InputReader {
    fn drop(&mut self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
        let ended = self.running.recv_timeout(PATIENCE);
        if ended == Err(threads::RecvTimeoutError::Disconnected)
            && let Some(thread) = self.thread.take()
        {
            // A panic of the thread was printed.
            drop(thread.join());
        }
    }
}

fn translate(event: &event::Event) -> Option<TuiEvent> {
    match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => {
            key_of(key).map(TuiEvent::Key)
        }
        event::Event::Resize(..) => Some(TuiEvent::Resized),
        _ => None,
    }
}

fn key_of(key: &KeyEvent) -> Option<KeyPress> {
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => KeyPress::Interrupt,
        KeyCode::Char(letter) => KeyPress::Char(letter),
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Escape,
        KeyCode::Tab => KeyPress::Tab,
        KeyCode::Backspace => KeyPress::Backspace,
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::Left => KeyPress::Left,
        KeyCode::Right => KeyPress::Right,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::Home,
        KeyCode::End => KeyPress::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_awaited() {
        let (sender, ended) = threads::channel();
        drop(InputReader::start(move |is_wanted| {
            while is_wanted() {
                std::thread::yield_now();
            }
            sender.send(()).expect("a receiver");
        }));
        assert_eq!(ended.recv(), Ok(()));
    }

    #[test]
    fn a_reader_that_does_not_return_is_left() {
        let (sender, input) = threads::channel::<()>();
        let (ends, end) = threads::channel();
        // It waits until the sender is dropped.
        drop(InputReader::start(move |_| {
            assert!(input.recv().is_err());
            ends.send(()).expect("a receiver");
        }));
        drop(sender);
        assert_eq!(end.recv(), Ok(()));
    }
}
