//! Single operations that find out what became of them.

use super::{CertainTransaction, Receipt};
use crate::op::{CreateBuilder, DeleteBuilder, SetDataBuilder};

impl CreateBuilder {
    /// Settles a lost answer, also if others consume or replace the node at once: the create is sent with a number for a
    /// [receipt](Receipt), in one transaction, and sent again only if the receipt proves that it was not applied. Set the
    /// options before.
    ///
    /// Not with [`protected`](Self::protected), [`idempotent`](Self::idempotent) or [`or_set_data`](Self::or_set_data),
    /// which are other answers to the same question: that fails with `InvalidArgument`.
    ///
    /// **Awaiting returns** [`Applied`](super::Applied), which has a [guard](super::Applied::own) of the node. After a lost
    /// answer the name of a sequential node is not known.
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        self.into_transaction().certain(receipt)
    }
}

impl SetDataBuilder {
    /// Settles a lost answer, whatever others have written since: the write is sent with a number for a
    /// [receipt](Receipt), in one transaction, and sent again only if the receipt proves that it was not applied. Set the
    /// options before.
    ///
    /// Not with [`idempotent`](Self::idempotent): that fails with `InvalidArgument`.
    ///
    /// **Awaiting returns** [`Applied`](super::Applied).
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        self.into_transaction().certain(receipt)
    }
}

impl DeleteBuilder {
    /// Settles a lost answer, whatever others have created since: the delete is sent with a number for a
    /// [receipt](Receipt), in one transaction, and sent again only if the receipt proves that it was not applied. Set the
    /// options before.
    ///
    /// It may have a [version](Self::version). The options that say what else is a success, what else is deleted, or what
    /// goes on in the background fail with `InvalidArgument`.
    ///
    /// **Awaiting returns** [`Applied`](super::Applied).
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        self.into_transaction().certain(receipt)
    }
}
