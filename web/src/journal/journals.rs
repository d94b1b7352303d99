//! The journals of an explorer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::CuratorFramework;
use zk_curator::internal::{Locked, sleep};

use super::book::{ChangeCounts, RecordedChange};
use super::follow::Journal;
use crate::live::News;
use crate::security::Redaction;

/// The time for which a path is followed after its last viewer has left, or has loaded its page.
const LINGER: Duration = Duration::from_secs(600);

/// The followed paths, each with one watch on the servers for all of its viewers.
#[derive(Debug)]
pub(crate) struct Journals {
    zk: CuratorFramework,
    redaction: Redaction,
    most: usize,
    open: Locked<BTreeMap<String, Arc<Journal>>>,
}

/// Too many paths are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoJournal;

/// A viewer of a journal. Dropping it ends the view.
#[derive(Debug)]
pub(crate) struct JournalView {
    journal: Arc<Journal>,
    told: Option<News>,
}

/// The changes that a client has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenChanges {
    /// The number of the last one in this journal; 0 for none.
    pub(super) last: u64,
    /// `true` if they are of another journal. Changes between the two may be missing.
    pub(super) are_of_another: bool,
}

/// The state of a journal for a page.
#[derive(Debug)]
pub(crate) struct JournalPage {
    /// The time at which it was opened, in milliseconds since 1970 by the clock of this host.
    pub(crate) began: i64,
    pub(crate) news: News,
    pub(crate) counts: ChangeCounts,
    /// The number of the last change.
    pub(crate) last: u64,
    /// The changes, the newest first.
    pub(crate) changes: Vec<Arc<RecordedChange>>,
    /// The number of older changes that were dropped.
    pub(crate) dropped: u64,
    /// `true` if some nodes were not read, because of the limits or of missing rights.
    pub(crate) is_partial: bool,
}

impl Journals {
    pub(crate) fn new(zk: CuratorFramework, redaction: Redaction, most: usize) -> Arc<Self> {
        Arc::new(Self { zk, redaction, most, open: Locked::default() })
    }

    /// Returns the maximum number of followed paths.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Begins to view the changes below a path, which need not exist.
    pub(crate) fn view(self: &Arc<Self>, path: &str) -> Result<JournalView, NoJournal> {
        let (journal, is_new) = self.enter(path)?;
        if is_new {
            let (own, then) = (Arc::clone(&journal), Arc::clone(&journal));
            let (journals, after) = (Arc::clone(self), Arc::clone(self));
            // The end is also that of a task that panics, or whose runtime ends.
            self.zk.spawn_then(async move { journals.run(&own).await }, move |_| {
                after.ended(&then);
            });
        }
        Ok(JournalView { journal, told: None })
    }

    fn enter(&self, path: &str) -> Result<(Arc<Journal>, bool), NoJournal> {
        let arrive = |journal: &Journal| {
            journal.seats.modify(|seats| {
                seats.viewers += 1;
                seats.visits += 1;
                seats.seen = Instant::now();
            });
        };
        let mut open = self.open.lock();
        if let Some(journal) = open.get(path) {
            arrive(journal);
            return Ok((Arc::clone(journal), false));
        }
        if open.len() >= self.most {
            let left = open.values().filter_map(|journal| {
                let seats = journal.seats.look(|seats| *seats);
                (seats.viewers == 0).then(|| (seats.seen, journal.path.clone()))
            });
            let (_, oldest) = left.min().ok_or(NoJournal)?;
            if let Some(journal) = open.remove(&oldest) {
                journal.seats.modify(|seats| seats.is_evicted = true);
            }
        }
        let journal = Arc::new(Journal::new(path.to_owned(), self.redaction.clone()));
        arrive(&journal);
        open.insert(path.to_owned(), Arc::clone(&journal));
        Ok((journal, true))
    }

    /// Follows a path until nobody views it, or the framework is closed.
    async fn run(&self, journal: &Arc<Journal>) {
        tokio::select! {
            () = journal.follow(&self.zk) => {}
            () = self.abandoned(journal) => {}
        }
    }

    /// Waits until a journal has had no viewer for a while, and removes it.
    async fn abandoned(&self, journal: &Arc<Journal>) {
        loop {
            let left = journal
                .seats
                .find(|seats| (seats.viewers == 0 || seats.is_evicted).then_some(*seats));
            let left = left.await;
            if left.is_evicted {
                return;
            }
            tokio::select! {
                () = sleep(LINGER) => {
                    let mut open = self.open.lock();
                    // No viewer enters while the journals are locked.
                    if journal.seats.look(|seats| *seats == left) {
                        remove(&mut open, journal);
                        return;
                    }
                }
                () = journal.seats.until(|seats| *seats != left) => {}
            }
        }
    }

    fn ended(&self, journal: &Arc<Journal>) {
        remove(&mut self.open.lock(), journal);
        journal.news.modify(|news| news.is_over = true);
    }
}

fn remove(open: &mut BTreeMap<String, Arc<Journal>>, journal: &Arc<Journal>) {
    if open.get(&journal.path).is_some_and(|present| Arc::ptr_eq(present, journal)) {
        open.remove(&journal.path);
    }
}

impl JournalView {
    /// Returns the present news at the first call, and then the latest after every change; `None`
    /// when the path is no longer followed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<News> {
        let told = self.told;
        let news = self.journal.news.find(|news| (told != Some(*news)).then_some(*news)).await;
        self.told = Some(news);
        (!news.is_over).then_some(news)
    }

    /// Returns the kept changes after a number, the oldest first, and the number of those between
    /// them that were dropped.
    pub(crate) fn after(&self, number: u64) -> (Vec<Arc<RecordedChange>>, u64) {
        self.journal.book.lock().after(number)
    }

    /// Returns the id of a change for clients, which is opaque: a later journal of the same path has
    /// other ids for the same numbers.
    pub(super) fn id_of(&self, change: &RecordedChange) -> String {
        format!("{}-{}", self.journal.mark, change.number)
    }

    /// Returns the changes of a client that has seen those up to an id.
    pub(crate) fn seen_by_id(&self, id: &str) -> SeenChanges {
        let own = id.split_once('-').filter(|(mark, _)| *mark == self.journal.mark);
        let number: Option<u64> = own.and_then(|(_, number)| number.parse().ok());
        SeenChanges { last: number.unwrap_or_default(), are_of_another: number.is_none() }
    }

    /// Returns the changes of a client that has seen those up to a number, by default all of them.
    pub(crate) fn seen_by_number(&self, number: Option<u64>) -> SeenChanges {
        let last = self.journal.book.lock().last();
        let number = number.unwrap_or(last);
        SeenChanges { last: number, are_of_another: number > last }
    }

    /// Returns the state for a page: the changes after a number, the newest first.
    pub(crate) fn page(&self, number: u64) -> JournalPage {
        let book = self.journal.book.lock();
        let (mut changes, dropped) = book.after(number);
        changes.reverse();
        let (counts, last, is_partial) = (book.counts(), book.last(), book.is_partial());
        drop(book);
        let news = self.journal.news.look(|news| *news);
        JournalPage { began: self.journal.began, news, counts, last, changes, dropped, is_partial }
    }
}

impl Drop for JournalView {
    fn drop(&mut self) {
        self.journal.seats.modify(|seats| {
            seats.viewers = seats.viewers.saturating_sub(1);
            seats.seen = Instant::now();
        });
    }
}
