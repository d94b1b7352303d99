//! Pictures of pages.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{BrowserError, io_error};

/// A picture of a page, in a PNG file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    path: PathBuf,
    width: u32,
    height: u32,
}

impl Picture {
    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the width and the height, in pixels.
    #[must_use]
    pub const fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Writes a PNG to a file, whose folder is made.
    pub(crate) fn save(path: PathBuf, png: &[u8]) -> Result<Self, BrowserError> {
        let Some((width, height)) = size(png) else {
            let response = format!("{} bytes that are not a PNG", png.len());
            return Err(BrowserError::Malformed { command: "screenshot".to_owned(), response });
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(io_error("create", folder))?;
        }
        fs::write(&path, png).map_err(io_error("write", &path))?;
        Ok(Self { path, width, height })
    }
}

/// Returns the width and the height of a PNG, which its first chunk begins with.
fn size(png: &[u8]) -> Option<(u32, u32)> {
    let head = png.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR")?;
    let (width, rest) = head.split_first_chunk::<4>()?;
    let (height, _) = rest.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*width), u32::from_be_bytes(*height)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_that_of_the_header() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend([0, 0, 5, 0, 0, 0, 3, 32, 8, 6]);
        assert_eq!(size(&png), Some((1280, 800)));
        assert_eq!(size(&png[..20]), None);
        assert_eq!(size(b"GIF89a"), None);
    }
}
