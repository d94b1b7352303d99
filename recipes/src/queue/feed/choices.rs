//! The choices of one test run.

/// Makes the given choices, then always the first.
#[derive(Default)]
pub(in crate::queue) struct Choices {
    pub(in crate::queue) made: Vec<(usize, usize)>,
    pub(in crate::queue) next: usize,
    /// The number of choices that are enumerated exhaustively.
    pub(in crate::queue) depth: usize,
}

impl Choices {
    pub(in crate::queue) fn choose(&mut self, of: usize) -> usize {
        if self.next == self.made.len() && self.next < self.depth {
            self.made.push((0, of));
        }
        let made = self.made.get(self.next).map_or(0, |(choice, _)| choice % of);
        self.next += 1;
        made
    }

    /// Moves to the next choices. Returns `false` after the last.
    pub(in crate::queue) fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((choice, of)) = self.made.pop() {
            if choice + 1 < of {
                self.made.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}
