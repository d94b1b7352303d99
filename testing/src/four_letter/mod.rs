//! Four-letter words: a client that sends one instead of a handshake receives text.

mod date;
mod report;
mod word;

pub(crate) use report::answer;
pub(crate) use word::{Opening, Word};
