//! Output and input of the programs.

use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

use tokio::sync::oneshot;

/// Prints a line on standard output, for a program that reads it.
///
/// # Errors
/// The errors of the operating system.
pub fn print(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Prints an error and its causes in one line on standard error. Returns the exit code.
#[expect(clippy::print_stderr, reason = "a program talks to its terminal")]
pub fn complain(program: &str, error: &(dyn Error + '_), code: u8) -> ExitCode {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line += &format!(": {error}");
        cause = error.source();
    }
    eprintln!("{program}: {line}");
    ExitCode::from(code)
}

/// Completes at the end of standard input, whose bytes are ignored. A thread reads it, which
/// nothing waits for, because a read cannot be cancelled.
pub async fn end_of_input() {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut bytes = [0; 1024];
        // An input that cannot be read has ended.
        while input.read(&mut bytes).is_ok_and(|read| read > 0) {}
        ended.send(()).ok();
    });
    end.await.ok();
}
