//! Standard input. It is read in a thread of its own, so that the session lives on while the user
//! thinks. If the reader is dropped, its thread leaves the next line of a terminal to others.

use std::io::{self, BufRead, IsTerminal, StdinLock};
use std::sync::{Arc, Weak};

/// Reads a line, without the spaces around it; an empty one at the end of the input.
pub(crate) async fn line() -> io::Result<String> {
    Ok(line_or_end().await?.unwrap_or_default())
}

/// Reads a line, without the spaces around it; `None` at the end of the input.
pub(crate) async fn line_or_end() -> io::Result<Option<String>> {
    let line = read(|stdin| {
        let mut line = String::new();
        let length = stdin.read_line(&mut line)?;
        Ok(Some((length > 0).then_some(line)))
    });
    Ok(line.await?.map(|line| line.trim().to_owned()))
}

/// Reads everything.
pub(crate) async fn all() -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    read(move |stdin| {
        let read = stdin.fill_buf()?;
        all.extend_from_slice(read);
        let length = read.len();
        stdin.consume(length);
        Ok((length == 0).then(|| std::mem::take(&mut all)))
    })
    .await
}

/// Waits for the end, and forgets what comes before it.
pub(crate) async fn end() -> io::Result<()> {
    read(|stdin| {
        let length = stdin.fill_buf()?.len();
        stdin.consume(length);
        Ok((length == 0).then_some(()))
    })
    .await
}

/// Calls a function whenever there is something to read, until it has a result.
async fn read<T: Send + 'static>(
    mut next: impl FnMut(&mut StdinLock<'_>) -> io::Result<Option<T>> + Send + 'static,
) -> io::Result<T> {
    let reader = Arc::new(());
    let is_wanted = Arc::downgrade(&reader);
    let thread = tokio::task::spawn_blocking(move || {
        let is_terminal = io::stdin().is_terminal();
        loop {
            if is_terminal && !wait(&is_wanted)? {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if let Some(result) = next(&mut io::stdin().lock())? {
                return Ok(result);
            }
        }
    });
    let result = thread.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    drop(reader);
    result
}

/// Waits for input. Returns `false` if the reader is gone.
#[cfg(unix)]
fn wait(is_wanted: &Weak<()>) -> io::Result<bool> {
    use std::os::fd::AsFd;

    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// The time between two looks at the reader, in milliseconds.
    const LOOK: u8 = 50;
    let stdin = io::stdin();
    while is_wanted.strong_count() > 0 {
        match poll(&mut [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)], PollTimeout::from(LOOK)) {
            Ok(0) | Err(Errno::EINTR) => {}
            // The reader may have gone while there was nothing to read.
            Ok(_) => return Ok(is_wanted.strong_count() > 0),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

#[cfg(not(unix))]
fn wait(is_wanted: &Weak<()>) -> io::Result<bool> {
    Ok(is_wanted.strong_count() > 0)
}
