//! [`Value`]: the value of an option of the command line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::Parser;

/// The value of an option, before it is parsed. Every error names the option.
#[derive(Debug)]
pub struct Value<'a> {
    option: &'a str,
    arguments: &'a mut Parser,
}

impl<'a> Value<'a> {
    /// Creates the value of the option that the parser has returned last.
    pub const fn new(option: &'a str, arguments: &'a mut Parser) -> Self {
        Self { option, arguments }
    }

    /// Returns the error of a value.
    #[must_use]
    pub fn wrong(&self, value: &dyn Display, wanted: &str) -> lexopt::Error {
        format!("invalid value '{value}' for option '{}': wants {wanted}", self.option).into()
    }

    /// Returns the text.
    ///
    /// # Errors
    /// There is no value, or it is not UTF-8.
    pub fn text(&mut self) -> Result<String, lexopt::Error> {
        self.arguments.value()?.into_string().map_err(|value| self.wrong(&value.display(), "UTF-8"))
    }

    /// Returns a path that is not empty.
    ///
    /// # Errors
    /// There is no value, or it is empty.
    pub fn path(&mut self, wanted: &str) -> Result<PathBuf, lexopt::Error> {
        let path = self.arguments.value()?;
        if path.is_empty() { Err(self.wrong(&"", wanted)) } else { Ok(path.into()) }
    }

    /// Returns the parsed text.
    ///
    /// # Errors
    /// Those of [`text`](Self::text), or the text is not as wanted.
    pub fn parsed<T: FromStr>(&mut self, wanted: &str) -> Result<T, lexopt::Error> {
        let text = self.text()?;
        text.parse().map_err(|_| self.wrong(&text, wanted))
    }

    /// Returns a number within a range.
    ///
    /// # Errors
    /// Those of [`text`](Self::text), or the text is no such number.
    pub fn number<T>(&mut self, range: RangeInclusive<T>) -> Result<T, lexopt::Error>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.text()?;
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            self.wrong(&text, &format!("a number from {} to {}", range.start(), range.end()))
        })
    }
}
