//! The options of the command line: their [values](Value), and [those](TaskOptions) that all
//! programs have.

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

/// The options that all programs have.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TaskOptions {
    /// The control port.
    pub control: Option<u16>,
    /// The file of the scenario.
    pub scenario: Option<PathBuf>,
    /// The program ends after the last step of the scenario.
    pub until_scenario_ends: bool,
    /// The program ends at the end of standard input.
    pub until_eof: bool,
}

impl TaskOptions {
    /// Reads an option. Returns `false` if it is none of these.
    ///
    /// # Errors
    /// Those of its value.
    pub fn read(&mut self, name: &str, value: &mut Value<'_>) -> Result<bool, lexopt::Error> {
        match name {
            "--control" => self.control = Some(value.number(0..=u16::MAX)?),
            "--scenario" => self.scenario = Some(value.path("a file")?),
            "--until-scenario-ends" => self.until_scenario_ends = true,
            "--until-eof" => self.until_eof = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks the options together, when all are read.
    ///
    /// # Errors
    /// The end of a scenario that is not given.
    pub fn check(&self) -> Result<(), lexopt::Error> {
        if self.until_scenario_ends && self.scenario.is_none() {
            return Err("option '--until-scenario-ends' is for '--scenario'".into());
        }
        Ok(())
    }
}
