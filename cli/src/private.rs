//! Files with secrets, which only their owner may read.

use std::path::Path;

use crate::exit::CommandFailure;

/// Refuses a file with a secret that other users may read, as ssh does: only if it belongs to this
/// user, who can change that. A file that does not exist is not refused here.
pub(crate) fn check(path: &Path) -> Result<(), CommandFailure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        use crate::output::shell_word;

        let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
        let is_ours = metadata.uid() == nix::unistd::getuid().as_raw();
        // A pipe, as of `<(…)`, has no other readers.
        if metadata.is_file() && is_ours && metadata.mode() & 0o077 != 0 {
            let (path, mode) = (path.display().to_string(), metadata.mode() & 0o777);
            return Err(CommandFailure::usage(format!(
                "{path}: others may read it (mode {mode:o})"
            ))
            .hint(format!("chmod 600 {}", shell_word(&path))));
        }
    }
    let _ = path;
    Ok(())
}
