//! Tests the parsers for the responses to four-letter words. They must not panic.

use zk_curator_ops::ensemble::words;

pub(crate) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    drop((words::refusal(&text), words::SrvrResponse::parse(&text)));
    drop((words::MntrResponse::parse(&text), words::ConfResponse::parse(&text)));
    drop((words::WatchSummary::parse(&text), words::dump(&text)));
    drop((words::connections(&text), words::lists(&text)));
}
