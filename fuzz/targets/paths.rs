//! The paths in URLs of the explorer on hostile bytes: no panic, only valid paths, and every valid
//! path is read from its URL as the same.

use zk_curator_client::path::validate;
use zk_curator_web::paths::{path_of, url_of};

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(path) = path_of(text) {
        assert_eq!(validate(&path), Ok(()), "{text:?}");
        assert_eq!(path_of(&url_of(&path)).as_deref(), Ok(path.as_str()));
    }
    if validate(text).is_ok() {
        let url = url_of(text);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%/".contains(&byte);
        assert!(url.bytes().all(is_plain), "{url:?}");
        assert_eq!(path_of(&url).as_deref(), Ok(text));
    }
}
