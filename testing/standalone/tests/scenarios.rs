//! Scenario files, run by the program.

use std::path::PathBuf;

use zk_curator_proto::records::CreateMode;

use crate::common::create;
use crate::program::{CONTROL, Program, output, refusal};
use zk_curator_real::TempDir;

const PAGE: &str = include_str!("../PROTOCOL.md");

/// A file with a scenario, which is removed when the test ends.
struct File {
    path: PathBuf,
    _directory: TempDir,
}

impl File {
    fn new(test: &str, text: &str) -> Self {
        let directory = TempDir::new(&format!("scenario-{test}")).expect("a directory");
        let path = directory.path().join("scenario.toml");
        std::fs::write(&path, text).expect("a file");
        Self { path, _directory: directory }
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("UTF-8")
    }
}

#[tokio::test]
async fn the_scenario_of_the_page_runs() {
    let (_, rest) = PAGE.split_once("```toml\n").expect("a scenario");
    let file = File::new("page", rest.split_once("```").expect("its end").0);
    let mut program = Program::start(&["--scenario", file.path(), "--until-scenario-ends"]).await;
    let mut zk = program.client().await;
    zk.create("/locks", CreateMode::Persistent).await.unwrap();
    zk.send(create("/locks/a", CreateMode::Persistent)).await;
    assert_eq!(zk.reply().await, None);
    for line in ["step 1: pause", "step 2: resume", "scenario ended"] {
        assert_eq!(program.line().await, line);
    }
    let (status, errors) = program.ended().await;
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn the_program_serves_on_after_the_last_step() {
    let file = File::new(
        "serves",
        "version = 1\n[[step]]\nuntil = { exists = \"/go\" }\n[[step]]\nafter_ms = 1\n\
         [[step]]\ncall = \"set_version\"\npath = \"/go\"\nversion = 7\n\
         [[step]]\ncall = \"add_rule\"\nname = \"r\"\nverdict = { refuse = \"no_auth\" }\noperation = [\"delete\"]\n",
    );
    let mut program = Program::start(&[CONTROL, &["--scenario", file.path()]].concat()).await;
    let mut zk = program.client().await;
    zk.create("/go", CreateMode::Persistent).await.unwrap();
    for line in ["step 1", "step 2", "step 3: set_version", "step 4: add_rule", "scenario ended"] {
        assert_eq!(program.line().await, line);
    }
    assert_eq!(zk.exists("/go", false).await.unwrap().version, 7);
    zk.delete("/go").await.unwrap_err();
    // Calls see the rules of the scenario.
    let mut control = program.controlled().await;
    control.until(serde_json::json!({ "rule": "r", "hits": 1 })).await;
    program.end("TERM").await;
}

#[tokio::test]
async fn a_step_that_fails_ends_the_program() {
    for (step, part) in [
        ("until = { exists = \"/a\" }\ntimeout_ms = 1", "step 2: until: not true after 1ms"),
        ("call = \"expire\"\nsession = \"0x1\"", "step 2: expire: there is no session 0x1"),
        ("until = { rule = \"r\", hits = 1 }", "step 2: until: there is no rule 'r'"),
        ("call = \"stop\"\nmember = 1", "step 2: stop: there is no member 1"),
    ] {
        let text = format!("version = 1\n[[step]]\ncall = \"pause\"\n[[step]]\n{step}\n");
        let file = File::new("fails", &text);
        let mut program = Program::start(&["--scenario", file.path()]).await;
        assert_eq!(program.line().await, "step 1: pause");
        let (status, errors) = program.ended().await;
        assert_eq!(status.code(), Some(3), "{errors}");
        assert!(errors.starts_with(&format!("zk-test-server: {part}")), "{errors}");
        assert_eq!(program.next_line().await, None);
    }
}

#[tokio::test]
async fn an_unfinished_scenario_is_a_failure() {
    let step = "[[step]]\nuntil = { exists = \"/a\" }\ncall = \"resume\"\n";
    let text = format!("version = 1\n[[step]]\ncall = \"pause\"\n{step}");
    let file = File::new("unfinished", &text);
    let options = ["--scenario", file.path(), "--until-scenario-ends", "--until-eof"];
    for signal in [None, Some("TERM"), Some("INT")] {
        let mut program = Program::start(&options).await;
        assert_eq!(program.line().await, "step 1: pause");
        let (status, errors) = match signal {
            Some(signal) => program.signal(signal).await,
            None => {
                drop(program.process.stdin.take());
                program.ended().await
            }
        };
        assert_eq!(errors, "zk-test-server: ended before step 2\n");
        assert_eq!(status.code(), Some(3), "{signal:?}");
    }
    // The end of the scenario was not asked for.
    let mut program = Program::start(&options[..2]).await;
    assert_eq!(program.line().await, "step 1: pause");
    program.end("TERM").await;
}

#[tokio::test]
async fn a_wrong_scenario_is_refused_before_the_start() {
    for (text, part) in [
        ("version = 2", "version 2 is not supported"),
        ("", "missing field `version`"),
        ("version = 1\n[[rules]]", "unknown field `rules`"),
        ("version = 1\nversion = 1", "duplicate"),
        ("version = 1\n[[rule]]\nname = \"r\"", "missing field `verdict`"),
        ("version = 1\n[[rule]]\nverdict = \"lose\"", "`lose`"),
        ("version = 1\n[[rule]]\nverdict = \"disconnect\"\nmember = 1", "no member 1"),
        (
            "version = 1\n[[rule]]\nverdict = \"disconnect\"\nname = \"r\"\n\
             [[rule]]\nverdict = \"disconnect\"\nname = \"r\"",
            "there is a rule 'r'",
        ),
        ("version = 1\n[[step]]", "step 1: a step needs"),
        (
            "version = 1\n[[step]]\ncall = \"puase\"",
            "step 1: 'puase' is not a call of the protocol",
        ),
        ("version = 1\n[[step]]\ncall = \"info\"\n[[step]]\ncall = \"hello\"", "step 2: "),
        ("version = 1\n[[step]]\ncall = \"until\"", "cannot call until"),
        ("version = 1\n[[step]]\ncall = \"pause\"\nmembers = 1", "unknown field `members`"),
        ("version = 1\n[[step]]\nmember = 1", "without a call has no parameter member"),
        ("version = 1\n[[step]]\nafter_ms = -1", "after_ms: "),
        ("version = 1\n[[step]]\ncall = \"pause\"\ntimeout_ms = 1", "`timeout_ms` is for `until`"),
        ("version = 1\n[[step]]\nuntil = { exists = \"a\" }", "begin with a slash"),
    ] {
        let file = File::new("wrong", text);
        let error = refusal(&["--port", "0", "--scenario", file.path()]).await;
        assert!(error.contains(part), "{text}: {error}");
    }
    let error = refusal(&["--port", "0", "--scenario", "/nowhere/scenario.toml"]).await;
    assert!(error.contains("cannot read the scenario /nowhere/scenario.toml"), "{error}");
    let error = refusal(&["--port", "0", "--until-scenario-ends"]).await;
    assert!(error.contains("is for '--scenario'"), "{error}");
}

#[tokio::test]
async fn rules_are_there_before_the_first_client() {
    let file = File::new(
        "first",
        "version = 1\n[[rule]]\nverdict = \"disconnect\"\noperation = \"create\"\n\
         [[step]]\nuntil = { sessions = 0 }\n",
    );
    let options = ["--port", "0", "--scenario", file.path(), "--until-scenario-ends"];
    // Without clients, the scenario ends by itself.
    let ended = output(&options).await;
    let text = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert!(text.ends_with("step 1\nscenario ended\n"), "{text}");
    let program = Program::start(&["--scenario", file.path()]).await;
    let mut zk = program.client().await;
    zk.send(create("/a", CreateMode::Persistent)).await;
    zk.closed().await;
}
