//! Single operations whose outcome can be determined after a lost response.

use super::{CertainTransaction, Receipt};
use crate::op::{CreateBuilder, DeleteBuilder, SetDataBuilder};

impl CreateBuilder {
    /// Settles a lost response, even if other clients consume or replace the node immediately. The
    /// create is sent with a number for a [receipt](Receipt), in one transaction, and is sent again
    /// only if the receipt proves that it was not applied. Set the options first.
    ///
    /// Cannot be combined with [`protected`](Self::protected), [`idempotent`](Self::idempotent) or
    /// [`or_set_data`](Self::or_set_data), which settle a lost response in other ways: that fails
    /// with `InvalidArgument`.
    ///
    /// **Awaiting returns** [`Applied`](super::Applied), which has a [guard](super::Applied::own)
    /// of the node. After a lost response, the name of a sequential node is unknown.
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        self.into_transaction().certain(receipt)
    }
}

impl SetDataBuilder {
    /// Settles a lost response, regardless of later writes of other clients. The write is sent with
    /// a number for a [receipt](Receipt), in one transaction, and is sent again only if the receipt
    /// proves that it was not applied. Set the options first.
    ///
    /// Cannot be combined with [`idempotent`](Self::idempotent): that fails with `InvalidArgument`.
    ///
    /// **Awaiting returns** [`Applied`](super::Applied).
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        self.into_transaction().certain(receipt)
    }
}

impl DeleteBuilder {
    /// Settles a lost response, even if other clients have created the node again. The delete is
    /// sent with a number for a [receipt](Receipt), in one transaction, and is sent again only if
    /// the receipt proves that it was not applied. Set the options first.
    ///
    /// It may have a [version](Self::version). Options that define other successes, delete further
    /// nodes, or continue in the background fail with `InvalidArgument`.
    ///
    /// **Awaiting returns** [`Applied`](super::Applied).
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        self.into_transaction().certain(receipt)
    }
}
