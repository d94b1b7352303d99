//! The choices of a play.

/// Makes choices: those that are given, then always the first.
#[derive(Default)]
pub(super) struct Choices {
    pub(super) made: Vec<(usize, usize)>,
    pub(super) next: usize,
    /// The number of choices of which all are made in turn.
    pub(super) depth: usize,
}

impl Choices {
    pub(super) fn choose(&mut self, of: usize) -> usize {
        if self.next == self.made.len() && self.next < self.depth {
            self.made.push((0, of));
        }
        let made = self.made.get(self.next).map_or(0, |(choice, _)| choice % of);
        self.next += 1;
        made
    }

    /// Goes on to the next choices; `false` when all were made.
    pub(super) fn advance(&mut self) -> bool {
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
