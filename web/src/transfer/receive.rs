//! Receives a form with a file.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use axum::body::Body;
use axum::http::HeaderMap;
use flate2::bufread::MultiGzDecoder;
use tokio::io::AsyncWriteExt;
use zk_curator_ops::files::TemporaryFile;

use super::multipart::Multipart;
use super::uploads::{self, Uploads};
use super::work::{WorkPlaces, until_gone};
use crate::fields::Fields;
use crate::problem::{Problem, RequestResult};
use crate::security::ChangePermit;

/// The bytes of a form in addition to its file.
const OTHER_PARTS: u64 = 64 << 10;

/// A form with a file.
#[derive(Debug)]
pub(crate) struct ReceivedForm {
    pub(crate) fields: Fields,
    pub(crate) permit: ChangePermit,
    pub(crate) file: TemporaryFile,
}

/// Receives a form whose last part is a file, from the user of `places`. `check` sees the other
/// fields before anything is stored.
pub(crate) async fn receive(
    uploads: &Uploads,
    places: WorkPlaces<'_>,
    headers: &HeaderMap,
    body: Body,
    check: impl FnOnce(&Fields) -> RequestResult<ChangePermit>,
) -> RequestResult<ReceivedForm> {
    let limit = uploads.most_bytes();
    let mut parts = Multipart::new(headers, body, limit.saturating_add(OTHER_PARTS))?;
    let mut fields = Fields::default();
    loop {
        let Some(part) = parts.next().await? else {
            return Err(Problem::usage("The form has no file."));
        };
        if part.is_file {
            break;
        }
        let value = parts.text().await?;
        fields.push(part.name, value)?;
    }
    let permit = check(&fields)?;
    let _place = uploads.place(places.who)?;
    let file = store(&mut parts, limit).await?;
    let (path, most) = (file.path().to_owned(), uploads.most_opened());
    let opened = until_gone(places, move || async move { is_small(&path, most) }).await?;
    match opened {
        Ok(true) => Ok(ReceivedForm { fields, permit, file }),
        Ok(false) => Err(Problem::too_large(most)),
        Err(why) => Err(Problem::usage(format!("The file cannot be opened: {why}."))),
    }
}

/// Writes the present part to a file that only this process reads.
async fn store(parts: &mut Multipart, limit: u64) -> RequestResult<TemporaryFile> {
    let (upload, file) = uploads::create().map_err(|why| failed(&why))?;
    let mut file = tokio::fs::File::from_std(file);
    let mut length = 0_u64;
    while let Some(part) = parts.chunk().await? {
        length = length.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        if length > limit {
            return Err(Problem::too_large(limit));
        }
        file.write_all(&part).await.map_err(|why| failed(&why))?;
    }
    file.flush().await.map_err(|why| failed(&why))?;
    if length == 0 {
        return Err(Problem::usage("Choose a backup file: the form has none, or an empty one."));
    }
    Ok(upload)
}

/// Returns `true` if a file, opened, has at most this size. A small file may claim to be huge.
fn is_small(path: &Path, most: u64) -> io::Result<bool> {
    let mut file = BufReader::new(std::fs::File::open(path)?);
    if !file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        return Ok(true);
    }
    let mut opened = MultiGzDecoder::new(file).take(most.saturating_add(1));
    Ok(io::copy(&mut opened, &mut io::sink())? <= most)
}

fn failed(why: &io::Error) -> Problem {
    let detail = format!("The explorer cannot store the file: {why}.");
    Problem::internal("No space for the file", detail)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_file_that_grows_too_much_is_noticed() {
        let (upload, file) = uploads::create().unwrap();
        let mut encoder = GzEncoder::new(file, Compression::fast());
        encoder.write_all(&vec![b'0'; 1 << 20]).unwrap();
        encoder.finish().unwrap();
        assert!(is_small(upload.path(), 1 << 20).unwrap());
        assert!(!is_small(upload.path(), (1 << 20) - 1).unwrap());
    }
}
