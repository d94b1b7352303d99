use std::error::Error;

/// Formats an error with its causes, separated by colons, for a program or a log.
#[must_use]
pub fn with_causes(error: &(dyn Error + '_)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
