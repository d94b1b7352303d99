//! The output of the program.

use std::error::Error;
use std::io::Write;

pub(crate) fn complain_of(line: &str) {
    eprintln!("zk-test-server: {line}");
}

pub(crate) fn print(line: &str) -> Result<(), Box<dyn Error>> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}
