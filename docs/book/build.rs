//! Writes the pages as the doc tests need them: with the code that a reader does not have to see.
//!
//! A page shows plain code, on every site that renders Markdown. What a block needs beside that is
//! in an HTML comment above it:
//!
//! ```text
//! <!-- run: server, zk            wraps the block in `zk_curator_book::run(async |server, zk| {`
//! let orders = "/orders";         code before the block
//! at: zk.create(orders).await?;   code before the next line that begins so:
//! zk.create("/").await?;
//! end:                            code after the block:
//! zk.close().await?;
//! -->
//! ```
//!
//! `run_blocking: connect_string` wraps it in [`run_blocking`], `with:` in nothing. A block below
//! `<!-- from: examples/queue.rs:produce -->` is a part of that file, between the comments
//! `ANCHOR: produce` and `ANCHOR_END: produce`; the workspace compiles the file, so the block is
//! not compiled again.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    convert_folder(&root.join("src"), &to.join("src"));
    for package in ["client", "testing"] {
        let readme = root.join("../..").join(package).join("README.md");
        println!("cargo::rerun-if-changed={}", readme.display());
        convert(&readme, &to.join(format!("{package}.md")));
    }
}

fn convert_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder for the pages");
    for entry in fs::read_dir(from).expect("the folder of the pages") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            convert_folder(&path, &target);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            convert(&path, &target);
        }
    }
}

fn convert(page: &Path, target: &Path) {
    let text = fs::read_to_string(page).expect("a page");
    let tested =
        convert_page(&text).unwrap_or_else(|problem| panic!("{}: {problem}", page.display()));
    fs::write(target, tested).expect("a page can be written");
}

/// Returns the page with the code of its comments in its blocks.
fn convert_page(text: &str) -> Result<String, String> {
    let mut page = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(setup) = Setup::read(line, &mut lines)? else {
            page.extend([line, "\n"]);
            continue;
        };
        let fence = lines.next().unwrap_or_default();
        if fence.trim() != "```rust" {
            return Err(format!("no ```rust below `{line}`"));
        }
        let shown = lines.by_ref().take_while(|line| line.trim() != "```");
        page.push_str(&setup.block(&shown.collect::<Vec<_>>())?);
    }
    Ok(page)
}

/// What a comment says of the block below it.
enum Setup {
    /// The block is a part of a file that is compiled elsewhere.
    Elsewhere,
    /// The block is compiled between `opening` and `closing`, with code at some lines.
    Here { opening: String, before: Vec<String>, at: Vec<(String, Vec<String>)>, closing: String },
}

impl Setup {
    /// Reads a comment that begins with `line`; `None` if that does not begin one of ours.
    fn read<'a>(
        line: &str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<Option<Self>, String> {
        let Some(comment) = line.trim().strip_prefix("<!-- ") else { return Ok(None) };
        let Some((kind, argument)) = comment.split_once(':') else { return Ok(None) };
        let (argument, is_whole) = match argument.strip_suffix("-->") {
            Some(argument) => (argument.trim(), true),
            None => (argument.trim(), false),
        };
        let (opening, mut closing) = match kind {
            "from" => return Ok(Some(Self::Elsewhere)),
            "with" => (String::new(), String::new()),
            "run" => {
                (format!("zk_curator_book::run(async |{argument}| {{\n"), "Ok(()) });\n".to_owned())
            }
            "run_blocking" => (
                format!("zk_curator_book::run_blocking(|{argument}| {{\n"),
                "Ok(()) });\n".to_owned(),
            ),
            _ => return Ok(None),
        };
        let mut before = Vec::new();
        let mut at: Vec<(String, Vec<String>)> = Vec::new();
        let mut end = Vec::new();
        let mut part = &mut before;
        if !is_whole {
            loop {
                let line = rest.next().ok_or_else(|| format!("no end of `{line}`"))?;
                let code = line.trim();
                if code == "-->" {
                    break;
                } else if code == "end:" {
                    part = &mut end;
                } else if let Some(text) = code.strip_prefix("at: ") {
                    at.push((text.to_owned(), Vec::new()));
                    part = &mut at.last_mut().expect("pushed").1;
                } else {
                    part.push(format!("{code}\n"));
                }
            }
        }
        closing.insert_str(0, &end.concat());
        Ok(Some(Self::Here { opening, before, at, closing }))
    }

    /// Returns the block that is compiled.
    fn block(self, shown: &[&str]) -> Result<String, String> {
        let Self::Here { opening, before, at, closing } = self else {
            return Ok(format!("```rust,ignore\n{}\n```\n", shown.join("\n")));
        };
        let mut code = opening + &before.concat();
        let mut at = at.into_iter().peekable();
        for line in shown {
            if let Some((_, lines)) =
                at.next_if(|(text, _)| line.trim_start().starts_with(text.as_str()))
            {
                code.push_str(&lines.concat());
            }
            code.extend([line, "\n"]);
        }
        match at.next() {
            Some((text, _)) => Err(format!("no line of the block below begins with `{text}`")),
            None => Ok(format!("```rust\n{code}{closing}```\n")),
        }
    }
}
