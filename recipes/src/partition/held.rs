use std::fmt;
use std::sync::Arc;

use zk_curator::internal::CancellationToken;
use zk_curator::internal::Signal;
use zk_curator::op::Transaction;
use zk_curator::{FencingToken, Ownership};

/// A part that this member owns. Cheap to clone and to give to tasks; it does not keep the part.
#[derive(Clone)]
pub struct Partition {
    name: String,
    ownership: Ownership,
    control: Arc<Control>,
}

/// The signals of the member to the tasks of a part.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Drops an acquire.
    pub(super) cancel: CancellationToken,
    /// Drops a body.
    pub(super) stop: CancellationToken,
    revocation: Signal<Revocation>,
}

#[derive(Debug, Default)]
struct Revocation {
    is_revoked: bool,
    accepts_reprieve: bool,
    /// `true` if the body has learned that it was revoked, and not yet that it no longer is.
    is_noticed: bool,
}

impl Control {
    pub(super) fn revoke(&self) {
        self.revocation.modify(|revocation| revocation.is_revoked = true);
    }

    /// Withdraws the revocation, if the body has asked for that. Returns whether it has.
    pub(super) fn reprieve(&self) -> bool {
        self.revocation.modify(|revocation| {
            if revocation.accepts_reprieve {
                revocation.is_revoked = false;
            }
            revocation.accepts_reprieve
        })
    }

    pub(super) async fn revoked(&self) {
        self.revocation.until(|revocation| revocation.is_revoked).await;
    }

    /// Tells the body whether it is revoked.
    fn notice(&self) -> bool {
        self.revocation.modify(|revocation| {
            revocation.is_noticed = revocation.is_revoked;
            revocation.is_revoked
        })
    }

    /// Returns `true` if the body believes that it is revoked.
    pub(super) fn is_noticed(&self) -> bool {
        self.revocation.look(|revocation| revocation.is_noticed)
    }

    /// A new body decides for itself.
    pub(super) fn forget_reprieve(&self) {
        self.revocation.modify(|revocation| {
            (revocation.accepts_reprieve, revocation.is_noticed) = (false, false);
        });
    }
}

impl Partition {
    pub(super) const fn new(name: String, ownership: Ownership, control: Arc<Control>) -> Self {
        Self { name, ownership, control }
    }

    /// The name of the part.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fencing token, which is higher than the tokens of all earlier owners of the
    /// part.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.ownership.fencing_token()
    }

    /// The ownership of the lock of the part.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Begins a transaction that is only applied while this member owns the part: see
    /// [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.ownership.fenced()
    }

    /// Returns `true` if this member knows that it no longer owns the part: see
    /// [`Ownership::is_over`]. Sends nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ownership.is_over()
    }

    /// Resolves when this member no longer owns the part: its session is over, its lock was
    /// deleted, or it has released the lock, perhaps because the time to drain has passed. A body
    /// need not wait for it, because it is dropped then.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.ownership.over().await;
    }

    /// Resolves when the part is assigned to another member, or this member ends: the body should
    /// finish its work and return within the time to [drain](super::SetPartitioner::drain). Until
    /// then this member owns the part.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn revoked(&self) {
        self.control.revoked().await;
        self.control.notice();
    }

    /// Returns `true` if the part is revoked: see [`revoked`](Self::revoked).
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.control.notice()
    }

    /// Resolves while the part is not revoked.
    pub(super) async fn reprieved(&self) {
        self.control.revocation.until(|revocation| !revocation.is_revoked).await;
    }

    /// Lets the revocation be withdrawn when the part is assigned to this member again before the
    /// body has ended: the body then keeps the part and the fencing token. It checks
    /// [`is_revoked`](Self::is_revoked) before it returns, and if that is `false`, it works on and
    /// waits for [`revoked`](Self::revoked) again. A body that returns without that look begins
    /// once more. One that has not learned of the revocation, or of its end, has ended by itself,
    /// and the part rests.
    ///
    /// Call it before the part comes back, for example when the body begins. A call after the part
    /// has been assigned to this member again has no effect until the next assignment.
    ///
    /// Default: a revoked body has to end, and another one begins.
    pub fn accept_reprieve(&self) {
        self.control.revocation.modify(|revocation| revocation.accepts_reprieve = true);
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("name", &self.name)
            .field("token", &self.fencing_token())
            .field("control", &self.control)
            .field("is_over", &self.is_over())
            .finish_non_exhaustive()
    }
}
