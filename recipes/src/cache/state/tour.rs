//! Reads of everything below a path. They are requested in portions, so that the lock that readers
//! need is held only briefly.

use super::reads::ReadsInFlight;
use super::route::{RouteReason, Tour};
use super::tree_state::TreeState;

impl TreeState {
    /// Requests a read of everything, because changes may have been missed. The first such sweep is
    /// the load.
    pub(crate) fn sweep(&mut self) {
        let cause = self.reads.news().sweeping();
        // This includes nodes that have been deleted, and may exist again.
        self.reads.want_sent_again(cause);
        let root = self.tree.root().to_owned();
        self.tours.retain(|tour| tour.why != RouteReason::Missed);
        // No other read is as urgent.
        self.tours.push_front(Tour {
            why: RouteReason::Missed,
            cause,
            top: root.clone(),
            last: None,
        });
        self.visit();
        if self.tree.node(&root).is_none() && self.lists(&root) {
            // It probably has children: they are listed in the same request as its data, so in one
            // round trip.
            self.reads.want_names(&root, cause);
        }
    }

    /// Requests a read of everything, without doubting the current state. Lists are read as well:
    /// the next reported change of a parent hides an earlier change by an unreadable child.
    pub(crate) fn audit(&mut self) {
        if self.tours.iter().all(|tour| tour.why != RouteReason::Audit) {
            let top = self.tree.root().to_owned();
            self.tours.push_back(Tour {
                why: RouteReason::Audit,
                cause: ReadsInFlight::audit(),
                top,
                last: None,
            });
            self.go_on();
        }
    }

    /// Requests a read of a node and everything below it, including lists.
    pub(crate) fn refresh(&mut self, path: &str) {
        if !self.covers(path) {
            return;
        }
        let cause = self.reads.news().sweeping();
        if self.tree.entry(path).is_none() {
            self.want_parents(path, cause);
            if self.tree.make(path).is_some() {
                // It has no children.
                self.reads.want_data(path, cause);
            }
            return;
        }
        self.tours.push_back(Tour {
            why: RouteReason::Refresh,
            cause,
            top: path.to_owned(),
            last: None,
        });
    }

    /// Returns `true` if a read that a caller has requested is not in flight yet.
    pub(crate) fn is_refreshing(&self) -> bool {
        self.tours.iter().any(|tour| tour.why == RouteReason::Refresh)
    }

    /// Returns `true` if reads are needed because changes may have been missed, and are not
    /// requested yet.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.tours.iter().any(|tour| tour.why == RouteReason::Missed)
    }

    /// Visits some more places, unless a read is already wanted.
    pub(crate) fn go_on(&mut self) {
        while !self.tours.is_empty() && !self.reads.has_wanted() {
            self.visit();
        }
    }

    fn visit(&mut self) {
        let Some(mut tour) = self.tours.pop_front() else { return };
        let places = self.tree.places_after(&tour.top, tour.last.as_deref(), self.at_a_time);
        for place in &places {
            if tour.why != RouteReason::Missed
                && let Some(dir) = self.tree.entry_mut(place).and_then(|entry| entry.dir.as_mut())
            {
                dir.listed = None;
            }
            self.reads.want_data(place, tour.cause);
        }
        if places.len() < self.at_a_time {
            self.has_missed &= tour.why != RouteReason::Missed;
        } else {
            tour.last = places.into_iter().next_back();
            self.tours.push_front(tour);
        }
    }
}
