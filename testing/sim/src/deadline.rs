//! Detection of passed deadlines in the errors of recipes.

use std::error::Error;
use std::iter::successors;

use zk_curator::ErrorKind;
use zk_curator_recipes::{counter, stm};

/// Returns `true` if an error, or one of its causes, can be the effect of a deadline on an
/// operation of the framework: the operation timed out, or a retry would have come too late.
pub(super) fn may_be_of_a_deadline(error: &(dyn Error + 'static)) -> bool {
    has_cause(error, |error| error.is_retryable() || error.kind() == ErrorKind::SessionExpired)
}

/// Returns `true` if the error says that the framework was closed, which ends the session.
pub(super) fn is_closed(error: &(dyn Error + 'static)) -> bool {
    has_cause(error, |error| error.kind() == ErrorKind::Closed)
}

fn has_cause(error: &(dyn Error + 'static), is_it: impl Fn(&zk_curator::Error) -> bool) -> bool {
    let mut causes = successors(Some(error), |&error| error.source());
    causes.any(|error| of_framework(error).is_some_and(&is_it))
}

/// Returns the error of the framework in this error. Errors of recipes contain it transparently,
/// not as their source.
fn of_framework<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a zk_curator::Error> {
    macro_rules! of_recipes {
        ($($scenario:ident)*) => {$(
            if let Some(zk_curator_recipes::$scenario::Error::Framework(error)) = error.downcast_ref() {
                return Some(error);
            }
        )*};
    }
    if let Some(counter::Error::Unknown { why, .. }) = error.downcast_ref() {
        return Some(why);
    }
    if let Some(stm::Error::Unknown { why }) = error.downcast_ref() {
        return Some(why);
    }
    of_recipes!(barrier config counter leader lock name queue shared stm two_phase);
    error.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_curator_recipes::{barrier, config, leader, lock, name, queue, shared, two_phase};

    use super::*;
    use crate::{Failure, Faults, Sim};

    /// An error of a service whose cause is an error of a recipe.
    #[derive(Debug, thiserror::Error)]
    #[error("the service has failed")]
    struct Wrapped(#[source] lock::Error);

    #[test]
    fn timeouts_are_recognised_in_errors_of_every_recipe() {
        let sim = Sim::seed(1).clients(1).rounds(1).settings(false).faults(Faults::none());
        let outcome = sim.workload(|client| async move {
            let zk = client.connect().await?.with_deadline(Duration::ZERO);
            let timeout = zk.get_data("/a").await.expect_err("there is no time");
            let errors: Vec<Failure> = vec![
                Box::new(barrier::Error::Framework(timeout.clone())),
                Box::new(config::Error::Framework(timeout.clone())),
                Box::new(counter::Error::Framework(timeout.clone())),
                Box::new(counter::Error::Unknown { path: "/a".to_owned(), why: timeout.clone() }),
                Box::new(leader::Error::Framework(timeout.clone())),
                Box::new(name::Error::Framework(timeout.clone())),
                Box::new(queue::Error::Framework(timeout.clone())),
                Box::new(shared::Error::Framework(timeout.clone())),
                Box::new(stm::Error::Framework(timeout.clone())),
                Box::new(stm::Error::Unknown { why: timeout.clone() }),
                Box::new(two_phase::Error::Framework(timeout.clone())),
                Box::new(Wrapped(lock::Error::Framework(timeout.clone()))),
                Box::new(timeout),
            ];
            for error in errors {
                assert!(may_be_of_a_deadline(&*error), "{error:?}");
            }
            // A matching text alone does not count.
            let missing = client.connect().await?.get_data("/: operation timeout").await;
            assert!(!may_be_of_a_deadline(&missing.expect_err("there is no such node")));
            Ok(())
        });
        assert_eq!(outcome.run().violation, None);
    }
}
