/// The maximum number of items that are removed in one transaction.
const BATCH: usize = 64;

/// Decides how many items are read and removed before they are requested.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// The maximum number of prefetched items.
    pub(crate) prefetch: usize,
    /// The maximum number of items that are removed but not delivered.
    pub(crate) ack_batch: usize,
    /// `true` if several items can be removed in one transaction.
    can_batch: bool,
    /// The current number of prefetched items, which grows while items are requested.
    window: usize,
    /// `true` if it is known that no better items have arrived.
    is_refreshed: bool,
}

/// The number of items in each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StageCounts {
    pub(crate) fetching: usize,
    /// They have been read, and will be removed together.
    pub(crate) gathered: usize,
    pub(crate) removing: usize,
    /// They are removed, but not delivered.
    pub(crate) removed: usize,
}

/// The next step of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipelineStep {
    /// Checks whether better items have arrived.
    Refresh,
    /// Waits for the first item that is being read.
    AwaitFetch,
    /// Begins to remove the items that have been read.
    Remove,
    /// Waits for the first removal.
    AwaitRemoval,
    /// Delivers the first item that was removed.
    HandOut,
    /// There is no item.
    End,
}

impl Pipeline {
    pub(crate) const fn new(prefetch: usize, can_batch: bool) -> Self {
        Self { prefetch, ack_batch: 1, can_batch, window: 1, is_refreshed: false }
    }

    pub(crate) const fn set_ack_batch(&mut self, items: usize) {
        (self.ack_batch, self.window) = (items, items);
    }

    /// Returns `true` if another item of the list is read.
    pub(crate) const fn fetches(&self, fetching: usize) -> bool {
        self.is_refreshed && fetching < self.window
    }

    /// The number of items that are removed together.
    fn batch(&self) -> usize {
        if self.can_batch { self.ack_batch.div_ceil(2).min(BATCH) } else { 1 }
    }

    /// Returns what to do next.
    pub(crate) fn next(&mut self, stages: StageCounts) -> PipelineStep {
        if !self.is_refreshed {
            self.is_refreshed = true;
            return PipelineStep::Refresh;
        }
        if stages.removing + stages.removed + self.batch() <= self.ack_batch {
            if stages.gathered < self.batch() && stages.fetching > 0 {
                return PipelineStep::AwaitFetch;
            }
            if stages.gathered > 0 {
                return PipelineStep::Remove;
            }
        }
        if stages.removed > 0 {
            self.is_refreshed = false;
            return PipelineStep::HandOut;
        }
        if stages.removing > 0 {
            return PipelineStep::AwaitRemoval;
        }
        (self.window, self.is_refreshed) = (self.ack_batch, false);
        PipelineStep::End
    }

    /// Begins a call.
    pub(crate) const fn begin(&mut self) {
        self.is_refreshed = false;
    }

    /// Notes the delivery of an item: more items are wanted.
    pub(crate) fn handed_out(&mut self) {
        self.window = (self.window * 2).min(self.prefetch.max(self.ack_batch));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Plays a pipeline on a list of items, and returns the order of their delivery.
    fn play(pipeline: &mut Pipeline, mut list: std::ops::Range<usize>) -> Vec<usize> {
        let (mut fetching, mut gathered, mut removing, mut removed) =
            (vec![], vec![], vec![], vec![]);
        let mut out = Vec::new();
        pipeline.begin();
        loop {
            while pipeline.fetches(fetching.len())
                && let Some(item) = list.next()
            {
                fetching.push(item);
            }
            let [stages_fetching, stages_gathered, stages_removing, stages_removed] =
                [&fetching, &gathered, &removing, &removed].map(|stage: &Vec<usize>| stage.len());
            assert!(stages_removing + stages_removed <= pipeline.ack_batch);
            assert!(stages_fetching <= pipeline.prefetch.max(pipeline.ack_batch));
            let stages = StageCounts {
                fetching: stages_fetching,
                gathered: stages_gathered,
                removing: stages_removing,
                removed: stages_removed,
            };
            match pipeline.next(stages) {
                PipelineStep::Refresh => {}
                PipelineStep::AwaitFetch => gathered.push(fetching.remove(0)),
                PipelineStep::Remove => removing.append(&mut gathered),
                PipelineStep::AwaitRemoval => removed.append(&mut removing),
                PipelineStep::HandOut => {
                    out.push(removed.remove(0));
                    pipeline.handed_out();
                }
                PipelineStep::End => return out,
            }
        }
    }

    proptest! {
        #[test]
        fn every_item_is_delivered_in_order(
            prefetch in 1..20_usize,
            ack_batch in 1..200_usize,
            can_batch in any::<bool>(),
            items in 0..300_usize,
        ) {
            let mut pipeline = Pipeline::new(prefetch, can_batch);
            pipeline.set_ack_batch(ack_batch);
            prop_assert_eq!(play(&mut pipeline, 0..items), (0..items).collect::<Vec<_>>());
        }
    }
}
