//! Operations that have passed their deadline, in the errors of recipes.

use std::error::Error;
use std::iter::successors;

use zk_curator::ErrorKind;

/// Whether an error, or one of its causes, is that of an operation of the framework that its deadline can have ended: it has
/// timed out, or a repetition would have come too late.
pub(super) fn may_be_of_a_deadline(error: &(dyn Error + 'static)) -> bool {
    let ended = |error: &zk_curator::Error| error.is_retryable() || error.kind() == ErrorKind::SessionExpired;
    let mut causes = successors(Some(error), |&error| error.source());
    causes.any(|error| of_framework(error).is_some_and(ended))
}

/// The error of the framework that this is. Errors of recipes show it as themselves, and not as their source.
fn of_framework<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a zk_curator::Error> {
    macro_rules! of_recipes {
        ($($scenario:ident)*) => {$(
            if let Some(zk_curator_recipes::$scenario::Error::Framework(error)) = error.downcast_ref() {
                return Some(error);
            }
        )*};
    }
    of_recipes!(barrier config leader lock name queue two_phase);
    error.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_curator_recipes::{barrier, config, leader, lock, name, queue, two_phase};

    use super::*;
    use crate::{Failure, Faults, Sim};

    /// An error of a service, with one of a recipe as its cause.
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
                Box::new(leader::Error::Framework(timeout.clone())),
                Box::new(name::Error::Framework(timeout.clone())),
                Box::new(queue::Error::Framework(timeout.clone())),
                Box::new(two_phase::Error::Framework(timeout.clone())),
                Box::new(Wrapped(lock::Error::Framework(timeout.clone()))),
                Box::new(timeout),
            ];
            for error in errors {
                assert!(may_be_of_a_deadline(&*error), "{error:?}");
            }
            // The text alone is no proof.
            let missing = client.connect().await?.get_data("/: operation timeout").await;
            assert!(!may_be_of_a_deadline(&missing.expect_err("there is no such node")));
            Ok(())
        });
        assert_eq!(outcome.run().violation, None);
    }
}
