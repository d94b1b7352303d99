//! The progress of long work, in one line on a terminal.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use zk_curator::CuratorFramework;
use zk_curator_ops::text::grouped;

use crate::output::{Out, time};

/// The time between two drawings.
const EVERY: Duration = Duration::from_millis(100);

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time that the end waits for a terminal that is stopped (Ctrl-S).
const LAST: Duration = Duration::from_secs(1);

/// The length of the bar, in characters.
const BAR: u64 = 10;

/// Begins and ends a drawing: the line is erased, and cut where a narrow terminal ends.
const BEGIN: &str = "\r\u{1b}[2K\u{1b}[?7l";
const END: &str = "\u{1b}[?7h";
const ERASE: &str = "\r\u{1b}[2K";

/// Shows how much of some work is done, until it is dropped. A thread of its own draws, so a slow
/// terminal does not slow down the work.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    done: Arc<AtomicU64>,
    _drawing: Option<ProgressDrawing>,
}

#[derive(Debug)]
struct ProgressDrawing {
    stop: Option<Sender<()>>,
    stopped: Receiver<()>,
}

impl ProgressLine {
    /// Shows the progress of this many nodes, if the total is known. Shows nothing unless stderr is
    /// a terminal and the output is for people.
    pub(crate) fn start(out: &Out, verb: &'static str, total: Option<u64>) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        if !out.shows_progress() {
            return Self { done, _drawing: None };
        }
        let (stop, stops) = channel();
        let (ended, stopped) = channel();
        let counted = Arc::clone(&done);
        thread::spawn(move || {
            draw(&stops, &counted, verb, total);
            drop(ended);
        });
        Self { done, _drawing: Some(ProgressDrawing { stop: Some(stop), stopped }) }
    }

    /// Does the same as [`start`](Self::start) for a subtree, which the server counts.
    pub(crate) async fn of_subtree(
        out: &Out,
        verb: &'static str,
        zk: &CuratorFramework,
        root: &str,
    ) -> Self {
        let total = match out.shows_progress() {
            // Servers before 3.6 cannot count.
            true => zk.get_all_children_number(root).await.ok(),
            false => None,
        };
        Self::start(out, verb, total.map(|below| u64::from(below) + 1))
    }

    /// Notes that this many more nodes are done.
    pub(crate) fn add(&self, nodes: usize) {
        add(&self.done, nodes);
    }

    /// Returns a function that does the same as [`add`](Self::add), for the progress of an
    /// operation.
    pub(crate) fn counter(&self) -> impl Fn(usize) + Send + Sync + use<> {
        let done = Arc::clone(&self.done);
        move |nodes| add(&done, nodes)
    }
}

fn add(done: &AtomicU64, nodes: usize) {
    done.fetch_add(u64::try_from(nodes).unwrap_or_default(), Ordering::Relaxed);
}

impl Drop for ProgressDrawing {
    fn drop(&mut self) {
        self.stop = None;
        // An error is the end of the thread, or of the patience.
        self.stopped.recv_timeout(LAST).ok();
    }
}

/// Draws until the other end of the channel is dropped, and erases the line.
fn draw(stops: &Receiver<()>, done: &AtomicU64, verb: &str, total: Option<u64>) {
    let begin = Instant::now();
    let mut wait = PATIENCE;
    while stops.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = EVERY;
        let line = line(verb, done.load(Ordering::Relaxed), total, begin.elapsed());
        // Nothing can be done about a terminal that is gone.
        drop(write!(io::stderr(), "{BEGIN}{line}{END}"));
    }
    if wait == EVERY {
        drop(write!(io::stderr(), "{ERASE}"));
    }
}

/// Returns the line after some time.
fn line(verb: &str, done: u64, total: Option<u64>, since: Duration) -> String {
    let millis = time::millis(since).max(1);
    let rate = done.saturating_mul(1_000) / millis;
    let Some(total) = total.filter(|total| *total >= done && *total > 0) else {
        return format!("{verb} {} nodes, {}/s", grouped(done), grouped(rate));
    };
    let part = |of: u64| u128::from(done) * u128::from(of) / u128::from(total);
    let bar = usize::try_from(part(BAR)).unwrap_or_default();
    let mut line = format!(
        "{verb} {:3} % [{:<10}] {} of {} nodes, {}/s",
        part(100),
        "#".repeat(bar),
        grouped(done),
        grouped(total),
        grouped(rate)
    );
    if let Some(left) = (total - done).checked_div(rate) {
        let left = humantime::format_duration(Duration::from_secs(left));
        line.push_str(&format!(", {left} left"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_part_the_rate_and_the_time() {
        let two = Duration::from_secs(2);
        assert_eq!(
            line("backup", 4_000, Some(10_000), two),
            "backup  40 % [####      ] 4,000 of 10,000 nodes, 2,000/s, 3s left"
        );
        assert_eq!(line("backup", 4_000, None, two), "backup 4,000 nodes, 2,000/s");
        let begin = line("backup", 0, Some(10), Duration::ZERO);
        assert_eq!(begin, "backup   0 % [          ] 0 of 10 nodes, 0/s");
        let end = line("backup", 10, Some(10), two);
        assert_eq!(end, "backup 100 % [##########] 10 of 10 nodes, 5/s, 0s left");
    }

    #[test]
    fn more_nodes_than_counted_have_no_bar() {
        assert_eq!(line("copy", 11, Some(10), Duration::from_secs(1)), "copy 11 nodes, 11/s");
        assert_eq!(line("copy", 0, Some(0), Duration::from_secs(1)), "copy 0 nodes, 0/s");
    }
}
