//! The files that commands write.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::Zkc;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("metadata").permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries.map(|one| name(one).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn only_the_owner_reads_what_is_exported() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "-p", "/a/b", "secret"]).await.ok();
    let folder = zkc.file("export");
    zkc.run(&["export", "/a", &folder.display().to_string()]).await.ok();
    for (path, expected) in
        [(folder.clone(), 0o700), (folder.join("b"), 0o700), (folder.join("b/_data"), 0o600)]
    {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[tokio::test]
async fn only_the_owner_reads_backups_and_contexts() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "secret"]).await.ok();
    let folder = zkc.file("out");
    std::fs::create_dir(&folder).expect("a folder");
    let file = folder.join("a.zkb");
    // The file of an earlier backup, or of another user, is replaced and not written to.
    std::fs::write(&file, "old").expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("a mode");
    zkc.run(&["backup", "/a", &file.display().to_string()]).await.ok();
    zkc.run(&["ctx", "add", "one", "-s", &zkc.servers]).await.ok();
    assert_eq!((mode(&file), mode(&zkc.file("config.toml"))), (0o600, 0o600));
    assert_eq!(names(&folder), ["a.zkb"]);
    let parts = names(&zkc.file("")).into_iter().filter(|name| name.contains("part"));
    assert_eq!(parts.count(), 0);
}

#[tokio::test]
async fn an_edited_file_cannot_be_foreseen() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "secret"]).await.ok();
    let told = zkc.file("told");
    let editor = zkc.file("editor");
    let script = "#!/bin/sh\nstat -c '%a %n' \"$1\" >> told\n";
    std::fs::write(&editor, script).expect("a file");
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    for _ in 0..2 {
        let mut edit = zkc.command(&["edit", "/a"]);
        edit.env("EDITOR", "./editor");
        crate::support::end(edit.spawn().expect("zkc"), "").await.ok();
    }
    let told = std::fs::read_to_string(told).expect("a file");
    let random = regex::Regex::new("^600 .*/zkc-[0-9a-f]{32}$").expect("a pattern");
    let lines: Vec<_> = told.lines().collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| random.is_match(line)), "{told}");
    assert_ne!(lines[0], lines[1]);
}

/// The names of earlier versions were foreseeable: the process is known before it runs `zkc`.
#[tokio::test]
async fn a_planted_link_is_not_followed() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "secret"]).await.ok();
    let victim = zkc.file("victim");
    std::fs::write(&victim, "precious").expect("a file");
    for (link, command) in
        [("a.zkb.part-$$", "backup /a a.zkb"), ("config.new-$$", "ctx add one -s localhost:1")]
    {
        let line = format!("ln -s victim {link} && exec zkc {command}");
        let mut shell = zkc.program("sh", &["-c", &line]);
        crate::support::end(shell.spawn().expect("sh"), "").await.ok();
        let text = std::fs::read_to_string(&victim).expect("a file");
        assert_eq!(text, "precious", "{command}");
    }
}
