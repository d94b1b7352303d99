use super::Budget;
use crate::error::{Error, ErrorKind};

/// The attempts of one request. It remembers the first unknown outcome. If the operation finally
/// fails, even in a later attempt, that is its error, because the first attempt may have been
/// applied.
pub(crate) struct RetryLoop<'b, 'a> {
    budget: &'b mut Budget<'a>,
    first_unknown: Option<Error>,
}

impl<'b, 'a> RetryLoop<'b, 'a> {
    pub(crate) const fn new(budget: &'b mut Budget<'a>) -> Self {
        Self { budget, first_unknown: None }
    }

    /// Returns the retries and the time left, for requests of the same operation.
    pub(crate) const fn budget(&mut self) -> &mut Budget<'a> {
        self.budget
    }

    /// Returns `true` if an earlier attempt may have been applied.
    pub(crate) const fn may_have_applied(&self) -> bool {
        self.first_unknown.is_some()
    }

    /// Returns the error of the operation that ends with `last`. The size of the request is the
    /// reason of all lost responses.
    pub(crate) fn failure(&self, last: Error) -> Error {
        match &self.first_unknown {
            Some(_) if last.kind() == ErrorKind::TooLarge && last.may_have_applied() => last,
            Some(first) => first.clone(),
            None => last,
        }
    }

    /// Remembers an unknown outcome, and waits until the request may be sent again, as
    /// [`Budget::spend`] does.
    pub(crate) async fn again(&mut self, error: Error, epoch: u64) -> Result<(), Error> {
        self.remember(&error);
        self.pause(error, epoch).await
    }

    /// Remembers the outcome if it is the first unknown one.
    pub(crate) fn remember(&mut self, error: &Error) {
        if error.may_have_applied() {
            self.first_unknown.get_or_insert_with(|| error.clone());
        }
    }

    /// Does the same as [`again`](Self::again) after the error of another request.
    pub(crate) async fn pause(&mut self, error: Error, epoch: u64) -> Result<(), Error> {
        self.budget.spend(error, epoch).await.map_err(|last| self.failure(last))
    }
}
