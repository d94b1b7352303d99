//! Commands of `zkc` in the documents parse: those in blocks of a console as they are, and those in
//! sentences as far as they go.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::{Cli, args, words};

/// Options that only a build with a feature has.
const OF_FEATURES: [(&str, bool); 1] = [("kerberos", cfg!(feature = "kerberos"))];

#[test]
fn commands_in_documents_parse() {
    let mut pages = vec![root().join("README.md"), root().join("cli/README.md")];
    add_pages(&root().join("docs"), &mut pages);
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let (lines, sentences) = consoles(&text);
        let mut check = |command: &str, problem: Option<String>| {
            checked += 1;
            let problem =
                problem.map(|problem| format!("{}: {command}: {problem}", page.display()));
            wrong.extend(problem);
        };
        for line in &lines {
            each_command(line, &mut |words| check(&words.join(" "), whole(words)));
        }
        for span in sentences.split('`').skip(1).step_by(2) {
            let span = span.split_whitespace().collect::<Vec<_>>();
            if span.first() == Some(&"zkc") {
                check(&span.join(" "), beginning(&span));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "only {checked} commands were found");
}

#[test]
fn wrong_commands_are_found() {
    let mut found = Vec::new();
    each_command("cat x | zkc nope /a; zkc lock /a -- sh -c 'exec zkc ls --nope'", &mut |words| {
        found.extend(whole(words));
    });
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(beginning(&["zkc", "queue", "nope"]).is_some());
    assert!(beginning(&["zkc", "get", "--nope"]).is_some());
    assert_eq!(beginning(&["zkc", "wait", "PATH", "--exists|--gone"]), None);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Returns the commands of the blocks of a console, and the text without any block.
fn consoles(text: &str) -> (Vec<String>, String) {
    let (mut commands, mut sentences) = (Vec::<String>::new(), String::new());
    let mut block = None;
    let mut goes_on = false;
    for line in text.lines() {
        let code = line.trim();
        if let Some(language) = code.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language.to_owned()) };
            goes_on = false;
        } else if block.is_none() {
            sentences.extend([line, "\n"]);
        } else if block.as_deref() == Some("console") {
            let words = code.strip_suffix('\\').unwrap_or(code);
            if goes_on {
                let words = words.trim_start_matches('>').trim();
                commands.last_mut().expect("it goes on").extend([" ", words]);
            } else if let Some(words) = words.strip_prefix("$ ") {
                commands.push(words.to_owned());
            } else {
                continue;
            }
            goes_on = code.ends_with('\\');
        }
    }
    (commands, sentences)
}

/// Calls `check` with the words of each `zkc` of a line of a shell, also of one that another runs.
fn each_command(line: &str, check: &mut impl FnMut(&[String])) {
    for part in parts(line) {
        let Ok(words) = words::split(&part) else { continue };
        let is_prefix = |word: &&String| *word == "exec" || word.contains('=');
        let words = &words[words.iter().take_while(is_prefix).count()..];
        if words.first().is_none_or(|word| word != "zkc") {
            continue;
        }
        check(words);
        let run = words.iter().position(|word| word == "--").map(|at| &words[at + 1..]);
        match run {
            Some([shell, option, script]) if shell == "sh" && option == "-c" => {
                each_command(script, check);
            }
            Some(run) if run.first().is_some_and(|word| word == "zkc") => {
                each_command(&part[part.find(" -- ").expect("found") + 4..], check);
            }
            _ => {}
        }
    }
}

/// Returns the parts of a line between the operators of a shell, without its comment.
fn parts(line: &str) -> Vec<String> {
    let (mut parts, mut quote, mut before) = (vec![String::new()], None, ' ');
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '#' && before == ' ' => break,
            None if matches!(letter, '\'' | '"') && before != '\\' => quote = Some(letter),
            None if "|&;<>()".contains(letter) && before != '\\' => {
                parts.push(String::new());
                before = letter;
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("one").push(letter);
        before = letter;
    }
    parts
}

/// Returns why a command does not parse.
fn whole(words: &[String]) -> Option<String> {
    let words: Vec<_> = words.iter().map(OsString::from).collect();
    match args::parse(Cli::command(), &words) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => None,
        Err(error) => Some(error.to_string()),
    }
}

/// Returns what in the first words of a command does not exist.
fn beginning(words: &[&str]) -> Option<String> {
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for (index, word) in words.iter().enumerate().skip(1) {
        if *word == "--" || word.starts_with("__") {
            break;
        }
        for word in word.split('|') {
            if let Some(option) = word.strip_prefix("--") {
                let option = option.split('=').next().unwrap_or_default();
                let is_of_another_build =
                    OF_FEATURES.iter().any(|&(name, is_built)| name == option && !is_built);
                let is_known = command.get_arguments().any(|argument| {
                    argument.get_long() == Some(option)
                        || argument
                            .get_all_aliases()
                            .is_some_and(|aliases| aliases.contains(&option))
                });
                if !is_known && !is_of_another_build {
                    return Some(format!("`{}` has no option --{option}", command.get_name()));
                }
            }
        }
        match command.find_subcommand(word) {
            Some(found) => command = found,
            None if index == 1 && word.chars().all(|letter| letter.is_ascii_lowercase()) => {
                return Some(format!("no command {word}"));
            }
            None if command.has_subcommands()
                && index > 1
                && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
                && !word.starts_with('-') =>
            {
                return Some(format!("`{}` has no command {word}", command.get_name()));
            }
            None => {}
        }
    }
    None
}
