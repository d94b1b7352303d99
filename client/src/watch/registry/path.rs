//! The watches on one path.

use tokio::sync::{mpsc, oneshot};
use zk_curator_proto::Request;
use zk_curator_proto::records::{SetWatches, SetWatches2};

use crate::watch::armed::{ArmedMode, Tables};
use crate::watch::event::WatchOutcome;
use crate::watch::kinds::{Kinds, WatchKind};
use crate::watch::{PersistentEvent, WatchEnded};

/// The receivers of an event.
#[derive(Debug)]
pub(crate) enum EventSink {
    Once(oneshot::Sender<WatchOutcome>),
    Stream(mpsc::UnboundedSender<PersistentEvent>),
}

impl EventSink {
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Once(sender) => sender.is_closed(),
            Self::Stream(sender) => sender.is_closed(),
        }
    }

    /// Sends an event to a stream; one-shot watches do not receive it.
    pub(super) fn tell(&self, event: PersistentEvent) {
        if let Self::Stream(sender) = self {
            // A failure means that there is no reader any more.
            drop(sender.send(event));
        }
    }

    pub(super) fn end(self, why: WatchEnded) {
        match self {
            // A failure means that there is no waiter any more.
            Self::Once(sender) => _ = sender.send(Box::new(Err(why))).is_ok(),
            Self::Stream(sender) => drop(sender.send(PersistentEvent::Ended(why))),
        }
    }
}

pub(super) type WatchHandle = (WatchKind, EventSink);

/// The handles on one path. There is nearly always one, which then needs no allocation.
#[derive(Debug, Default)]
pub(super) enum Handles {
    #[default]
    None,
    One(WatchHandle),
    Many(Vec<WatchHandle>),
}

impl Handles {
    pub(super) fn as_slice(&self) -> &[WatchHandle] {
        match self {
            Self::None => &[],
            Self::One(handle) => std::slice::from_ref(handle),
            Self::Many(handles) => handles,
        }
    }

    pub(super) fn push(&mut self, handle: WatchHandle) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(handle),
            Self::One(first) => Self::Many(vec![first, handle]),
            Self::Many(mut handles) => {
                handles.push(handle);
                Self::Many(handles)
            }
        };
    }

    /// Removes and returns the handles that satisfy `taken`.
    pub(super) fn extract(&mut self, mut taken: impl FnMut(&WatchHandle) -> bool) -> Self {
        let mut out = Self::None;
        for handle in std::mem::take(self).into_iter() {
            if taken(&handle) { out.push(handle) } else { self.push(handle) }
        }
        out
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = WatchHandle> {
        let (one, many) = match self {
            Self::None => (None, Vec::new()),
            Self::One(handle) => (Some(handle), Vec::new()),
            Self::Many(handles) => (None, handles),
        };
        one.into_iter().chain(many)
    }
}

/// The watches on one path.
#[derive(Debug, Default)]
pub(super) struct PathWatches {
    pub(super) handles: Handles,
    /// The watches that the server of this connection has armed.
    pub(super) armed: Tables,
    /// The armed watches after the pending requests.
    pub(super) expected: Tables,
    /// The number of pending requests that arm something.
    pub(super) arming: u32,
    /// The transaction since which some wanted watch has not been armed.
    pub(super) lacking: Option<i64>,
}

impl PathWatches {
    pub(super) fn wanted(&self) -> Kinds {
        self.handles
            .as_slice()
            .iter()
            .fold(Kinds::default(), |kinds, (kind, _)| kinds.or(Kinds::of(*kind)))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.handles.as_slice().is_empty() && self.arming == 0
    }

    /// Updates the transaction since which a watch is lacking, if one is.
    pub(super) fn note(&mut self, zxid: i64) {
        let (armed, needed) = (self.armed, Tables::needed_by(self.wanted()));
        if armed.data_is_enough_for(needed) && armed.child_is_enough_for(needed) {
            self.lacking = None;
        } else {
            self.lacking.get_or_insert(zxid);
        }
    }

    /// Notes the response to a request that arms something.
    pub(super) fn landed(&mut self) {
        self.arming = self.arming.saturating_sub(1);
        if self.arming == 0 {
            self.expected = self.armed;
        }
    }
}

impl PathWatches {
    pub(super) fn wants_persistent(&self) -> bool {
        !self.wanted().and(Kinds::LASTING).is_empty()
    }

    /// Returns the requests that arm watches which have been lacking since this transaction. A
    /// persistent watch may have missed events in between.
    pub(super) fn arm_again(
        &mut self,
        path: &str,
        wanted: Kinds,
        needed: Tables,
        since: i64,
    ) -> Vec<Request> {
        let path = || vec![path.to_owned()];
        let of = |kind: WatchKind| if wanted.contains(kind) { path() } else { Vec::new() };
        let mut requests = Vec::new();
        let is_lost = needed.data > ArmedMode::OneShot
            && (!self.armed.data_is_enough_for(needed)
                || (needed.child == ArmedMode::Persistent
                    && !self.armed.child_is_enough_for(needed)));
        if is_lost {
            for (_, sink) in self.handles.as_slice() {
                sink.tell(PersistentEvent::Disarmed);
            }
            let is_recursive = needed.data == ArmedMode::Recursive;
            requests.push(Request::SetWatches2(SetWatches2 {
                relative_zxid: since,
                persistent_watches: if is_recursive { Vec::new() } else { path() },
                persistent_recursive_watches: if is_recursive { path() } else { Vec::new() },
                ..SetWatches2::default()
            }));
            self.armed = Tables::persistent(needed.data);
        }
        let (lacks_data, lacks_child) =
            (!self.armed.data_is_enough_for(needed), !self.armed.child_is_enough_for(needed));
        // A persistent watch that was lost has not notified the one-shot watches that it served. So
        // the server compares for them, too, before it is armed again.
        let one_shot = SetWatches {
            relative_zxid: since,
            data_watches: if lacks_data || is_lost { of(WatchKind::Data) } else { Vec::new() },
            exist_watches: if lacks_data || is_lost { of(WatchKind::Exist) } else { Vec::new() },
            child_watches: if lacks_child { path() } else { Vec::new() },
        };
        if is_lost && !(one_shot.data_watches.is_empty() && one_shot.exist_watches.is_empty()) {
            let compared = SetWatches { child_watches: Vec::new(), ..one_shot.clone() };
            requests.insert(0, Request::SetWatches(compared));
            if lacks_child {
                let child =
                    SetWatches { data_watches: Vec::new(), exist_watches: Vec::new(), ..one_shot };
                requests.push(Request::SetWatches(child));
            }
        } else if lacks_data || lacks_child {
            requests.push(Request::SetWatches(one_shot));
        }
        if lacks_data {
            self.armed.data = ArmedMode::OneShot;
        }
        if lacks_child {
            self.armed.child = ArmedMode::OneShot;
        }
        self.arming += u32::try_from(requests.len()).unwrap_or(u32::MAX);
        requests
    }
}
