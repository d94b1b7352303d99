//! The proof that a request may change something.

use std::sync::Arc;

use axum::http::{HeaderMap, header};

use super::auth::{Means, Viewer};
use super::keys::Keys;
use super::origin::Origin;
use crate::fields::Fields;
use crate::problem::{Problem, RequestResult};

/// The field of a form, and the header of a request, with the token of the session.
const FIELD: &str = "csrf";
const HEADER: &str = "x-csrf-token";

/// The permission of a request to change something. Every function that changes something needs
/// one, and only the checks in this file make one.
#[derive(Debug)]
pub(crate) struct ChangePermit {
    who: Arc<str>,
}

impl ChangePermit {
    /// Checks a form.
    pub(crate) fn of_form(keys: &Keys, viewer: &Viewer, fields: &Fields) -> RequestResult<Self> {
        let token = fields.get(FIELD).unwrap_or_default();
        if viewer.session.is_some() && keys.are_equal(token, &viewer.csrf) {
            return Ok(Self::granted(viewer));
        }
        Err(refused())
    }

    /// Checks a request of the REST interface. A request of a browser needs the token, in the
    /// header `X-CSRF-Token`. Others have neither a cookie nor an origin, and a foreign page cannot
    /// make one of them.
    pub(crate) fn of_request(
        keys: &Keys,
        viewer: &Viewer,
        headers: &HeaderMap,
        origin: Origin,
    ) -> RequestResult<Self> {
        let is_of_browser = origin != Origin::Absent || headers.contains_key(header::COOKIE);
        if viewer.means == Means::Bearer || !is_of_browser {
            return Ok(Self::granted(viewer));
        }
        let token = headers.get(HEADER).and_then(|token| token.to_str().ok()).unwrap_or_default();
        if viewer.session.is_some() && keys.are_equal(token, &viewer.csrf) {
            return Ok(Self::granted(viewer));
        }
        Err(refused())
    }

    fn granted(viewer: &Viewer) -> Self {
        Self { who: viewer.who().into() }
    }

    /// Returns the name for logs.
    pub(crate) fn who(&self) -> &str {
        &self.who
    }
}

fn refused() -> Problem {
    let detail = "The request does not have the token of your session. Load the page again, and \
                  send the form from there.";
    Problem::forbidden("The form is not from this session", detail)
}
