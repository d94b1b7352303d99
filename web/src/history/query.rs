//! The fields of a request for the past.

use zk_curator_ops::history::At;
use zk_curator_ops::node::parse_id;
use zk_curator_ops::past::TimeOrAge;

use crate::fields::Fields;
use crate::problem::{Problem, RequestResult};

/// The changes that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HistoryQuery {
    /// The node, by its path on the servers.
    pub(crate) path: String,
    /// `true` for the nodes below it too.
    pub(crate) is_below: bool,
    /// The first and the last time, in milliseconds since 1970.
    pub(crate) since_ms: Option<i64>,
    pub(crate) until_ms: Option<i64>,
    /// A transaction, whose values are requested.
    pub(crate) change: Option<i64>,
    pub(crate) skips_damaged: bool,
}

impl HistoryQuery {
    /// `path` is the node of the page, and `server_path` its path on the servers. The page of the
    /// root shows the changes of all nodes unless the fields say otherwise.
    pub(crate) fn of(fields: &Fields, path: &str, server_path: String) -> RequestResult<Self> {
        let change = given(fields, "change").map(parse_id).transpose();
        let change = change.map_err(|why| invalid("change", &why))?;
        let is_below = match given(fields, "below") {
            Some("true") => true,
            Some("false") => false,
            None => path == "/",
            Some(_) => return Err(Problem::usage("The field below is not true or false.")),
        };
        Ok(Self {
            path: server_path,
            is_below: is_below && change.is_none(),
            since_ms: time(fields, "since")?,
            until_ms: time(fields, "until")?,
            change,
            skips_damaged: skips_damaged(fields),
        })
    }
}

/// Returns the moment in the field `at`.
pub(crate) fn moment_of(fields: &Fields) -> RequestResult<Option<At>> {
    let at = given(fields, "at").map(str::parse::<At>).transpose();
    at.map_err(|why| invalid("at", &why))
}

/// Returns `true` if damaged parts of the files are left out.
pub(crate) fn skips_damaged(fields: &Fields) -> bool {
    fields.get("damaged") == Some("skip")
}

fn given<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.get(name).map(str::trim).filter(|value| !value.is_empty())
}

fn time(fields: &Fields, name: &str) -> RequestResult<Option<i64>> {
    let time = given(fields, name).map(str::parse::<TimeOrAge>).transpose();
    let time = time.and_then(|time| time.map(TimeOrAge::ms_since_1970).transpose());
    time.map_err(|why| invalid(name, &why))
}

fn invalid(name: &str, why: &dyn std::fmt::Display) -> Problem {
    Problem::usage(format!("The field {name} cannot be read: {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(fields: &str, path: &str) -> RequestResult<HistoryQuery> {
        let fields = Fields::parse(fields.as_bytes()).unwrap();
        HistoryQuery::of(&fields, path, path.to_owned())
    }

    #[test]
    fn empty_fields_are_those_of_an_empty_form() {
        let plain = query("", "/a").unwrap();
        assert_eq!(query("since=&until=+&change=&below=", "/a").unwrap(), plain);
        assert!(!plain.is_below && query("", "/").unwrap().is_below);
        let one = query("change=0x11&below=true", "/a").unwrap();
        assert_eq!((one.change, one.is_below), (Some(17), false));
        let since = query("since=1970-01-01T00:00:02Z", "/a").unwrap();
        assert_eq!(since.since_ms, Some(2_000));
    }

    #[test]
    fn other_fields_are_refused() {
        for fields in ["since=14:02", "until=1969-01-01T00:00:00Z", "change=x", "below=yes"] {
            assert_eq!(query(fields, "/a").unwrap_err().status.as_u16(), 400, "{fields}");
        }
        let at = |text: &str| moment_of(&Fields::parse(text.as_bytes()).unwrap());
        assert_eq!(at("at=0x7").unwrap(), Some(At::Zxid(7)));
        assert_eq!(at("at=").unwrap(), None);
        assert!(at("at=0xg").is_err() && at("at=noon").is_err());
    }
}
