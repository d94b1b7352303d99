//! The number of open streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_curator::internal::Locked;

/// The open streams, of all users and of each.
#[derive(Debug)]
pub(crate) struct StreamLimits {
    most: usize,
    most_of_one: usize,
    open: Locked<BTreeMap<String, usize>>,
}

/// An open stream. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct StreamSeat {
    limits: Arc<StreamLimits>,
    who: String,
}

impl StreamLimits {
    pub(crate) fn new(most: usize, most_of_one: usize) -> Self {
        Self { most, most_of_one, open: Locked::default() }
    }

    /// Opens a stream; `None` if there are too many.
    pub(crate) fn take(self: &Arc<Self>, who: &str) -> Option<StreamSeat> {
        let mut open = self.open.lock();
        let own = open.get(who).copied().unwrap_or_default();
        if own >= self.most_of_one || open.values().sum::<usize>() >= self.most {
            return None;
        }
        open.insert(who.to_owned(), own + 1);
        Some(StreamSeat { limits: Arc::clone(self), who: who.to_owned() })
    }
}

impl Drop for StreamSeat {
    fn drop(&mut self) {
        let mut open = self.limits.open.lock();
        match open.get_mut(&self.who) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                open.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted() {
        let limits = Arc::new(StreamLimits::new(3, 2));
        let (one, two) = (limits.take("ann"), limits.take("ann"));
        assert!(one.is_some() && two.is_some() && limits.take("ann").is_none());
        let three = limits.take("bob");
        assert!(three.is_some() && limits.take("bob").is_none());
        drop((one, three));
        assert!(limits.take("ann").is_some());
        drop(two);
        assert!(limits.open.lock().is_empty());
    }
}
