//! The runtime, output and input of the programs.

use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

use lexopt::Parser;
use tokio::sync::oneshot;
use zk_curator_testing::with_causes;

/// The exit code of wrong options, and of a program that cannot start.
const CANNOT_START: u8 = 2;

/// The request of a command line.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the programs of this package construct it")]
pub enum Task<O> {
    /// A text for standard output.
    Print(String),
    /// To serve with these options.
    Serve(O),
}

/// Does what the command line requests, on a new runtime. Returns the exit code; it is 2 for a
/// command line that is wrong and for a program that cannot start.
///
/// Does not wait for blocking work at the end, because the resolution of a host name can take
/// minutes.
pub fn run<O, F>(
    program: &str,
    parse: impl FnOnce(Parser) -> Result<Task<O>, lexopt::Error>,
    serve: impl FnOnce(O) -> F,
) -> ExitCode
where
    F: Future<Output = Result<ExitCode, Box<dyn Error>>>,
{
    let start = || -> Result<ExitCode, Box<dyn Error>> {
        match parse(Parser::from_env()).map_err(|error| format!("{error}; see --help"))? {
            Task::Print(text) => {
                print(&text)?;
                Ok(ExitCode::SUCCESS)
            }
            Task::Serve(options) => {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
                let code = runtime.block_on(serve(options));
                runtime.shutdown_background();
                code
            }
        }
    };
    start().unwrap_or_else(|error| complain(program, &*error, CANNOT_START))
}

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
    eprintln!("{program}: {}", with_causes(error));
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
