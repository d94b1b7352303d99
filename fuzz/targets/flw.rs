//! Tests the parsers of `zkc` for the responses to four-letter words. They must not panic.

#[expect(dead_code, reason = "a part of another crate")]
#[path = "../../cli/src/ensemble/flw/mod.rs"]
mod flw;

pub(crate) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    drop((flw::refusal(&text), flw::Srvr::parse(&text), flw::Mntr::parse(&text)));
    drop((flw::Conf::parse(&text), flw::WatchSummary::parse(&text), flw::dump(&text)));
    drop((flw::connections(&text), flw::lists(&text)));
}
