//! The reads of one request, and their estimated sizes.

use zk_curator::ErrorKind;

use super::need::{CacheRead, CacheReadAnswer, ReadKind};
use super::node::CachedNode;
use super::pace::{Sizes, Unread};
use super::tree::parent;
use super::tree_state::TreeState;

/// The maximum number of reads in one request.
const MOST_READS: usize = 1_000;
/// The maximum number of concurrent reads if each is a request.
const MOST_SINGLE: usize = 64;
/// The maximum number of reads that are skipped while a request is put together.
const MOST_SKIPPED: usize = 4_000;
/// The size of a response that a request aims at, in bytes.
const ANSWER: usize = 256 * 1024;
/// The size of the stat of a node and the rest of its part of a response, in bytes.
const OVERHEAD: usize = 80;
/// The assumed size of a name in a list, and of the list of an unknown node, in bytes.
const NAME: usize = 48;
const UNKNOWN_LIST: usize = 64 * 1024;
/// The assumed size of a node whose response was too large, in bytes.
const LARGEST: usize = 4 * 1024 * 1024;

impl TreeState {
    /// Returns the next reads to send in one request; none if nothing must be read, or enough reads
    /// are in flight.
    pub(crate) fn next_batch(&mut self) -> Vec<CacheRead> {
        self.go_on();
        let (mut jobs, mut size, mut skipped) = (Vec::new(), 0, Vec::new());
        let most = if self.watches_each { MOST_SINGLE } else { MOST_READS };
        while size < ANSWER
            && jobs.len() < most
            && skipped.len() < MOST_SKIPPED
            && let Some((path, what)) = self.reads.next_wanted()
        {
            let (likely, bytes, unread) = self.size_of_read(&path, what);
            if !self.pace.has_room(bytes) {
                skipped.push((path, what));
                break;
            }
            if let Some(unread) = &unread
                && !self.pace.has_room_in(&unread.parent, &self.sizes_in(&unread.parent))
            {
                skipped.push((path, what));
                continue;
            }
            size += likely;
            let job = self.reads.begin(path, what);
            self.pace.sent(job.id, bytes, unread);
            jobs.push(job);
        }
        self.reads.put_back(skipped);
        jobs
    }

    /// Returns the expected and the worst-case size of a response, and the node if it was never
    /// read.
    fn size_of_read(&self, path: &str, what: ReadKind) -> (usize, usize, Option<Unread>) {
        let size = match (what, self.tree.node(path)) {
            (ReadKind::Data, Some(known)) => size_of(known),
            (ReadKind::Names, Some(known)) => {
                usize::try_from(known.stat.num_children).unwrap_or(0).saturating_mul(NAME)
                    + OVERHEAD
            }
            (ReadKind::Names, None) => UNKNOWN_LIST,
            (ReadKind::Data, None) => {
                let is_root = path == self.tree.root();
                let parent = if is_root { "" } else { parent(path).unwrap_or("") };
                let depth = self.tree.depth(path).unwrap_or(0);
                let (likely, bytes) = self.pace.estimate(&self.sizes_in(parent), depth);
                let unread = Unread { parent: parent.into(), depth };
                return (likely + OVERHEAD, bytes + OVERHEAD, Some(unread));
            }
        };
        (size, size, None)
    }

    /// Returns the sizes of the children of a node that were read for the first time.
    fn sizes_in(&self, parent: &str) -> Sizes {
        let dir = self.tree.entry(parent).and_then(|entry| entry.dir.as_ref());
        dir.map(|dir| dir.sizes).unwrap_or_default()
    }

    /// Ends a read. The response to the first read of a node shows how large other nodes may be.
    pub(super) fn landed(&mut self, job: &CacheRead, answer: Option<&CacheReadAnswer>) {
        let (Some(Unread { parent, depth }), Some(answer)) = (self.pace.landed(job.id), answer)
        else {
            return;
        };
        let size = match answer {
            CacheReadAnswer::Data(node) => size_of(node),
            CacheReadAnswer::Failed(ErrorKind::ResponseTooLarge) => LARGEST,
            _ => OVERHEAD,
        };
        let dir = self.tree.entry_mut(&parent).and_then(|entry| entry.dir.as_mut());
        self.pace.read(depth, size, dir.map(|dir| &mut dir.sizes));
    }

    /// Processes reads without a response.
    pub(crate) fn unanswered(&mut self, jobs: &[CacheRead]) {
        jobs.iter().for_each(|job| self.landed(job, None));
        self.reads.unanswered(jobs);
    }

    /// Processes reads that the server has refused, for a reason that does not concern the nodes.
    pub(crate) fn refused(&mut self, jobs: &[CacheRead], why: ErrorKind) {
        jobs.iter().for_each(|job| self.landed(job, None));
        self.reads.refused(jobs, why);
    }

    /// Ends all reads: the session is over, and no response will come.
    pub(crate) fn forget_reads(&mut self) {
        self.missed();
        self.pace.forget_sent();
        self.reads.forget_sent();
    }
}

/// The size of a node in a response, in bytes.
pub(super) fn size_of(node: &CachedNode) -> usize {
    usize::try_from(node.stat.data_length).unwrap_or(0) + OVERHEAD
}
