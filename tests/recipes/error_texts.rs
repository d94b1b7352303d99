//! The texts of errors: printed with their sources, as programs do, they say everything once.

use std::error::Error;
use std::io;

use zk_curator::CuratorFramework;
use zk_curator_recipes::counter::{self, DistributedAtomicLong, DistributedAtomicValue, Encoding};
use zk_curator_recipes::shared::{self, SharedValue};
use zk_curator_tests::{builder, files_below, impatient, in_memory, simulated, simulated_on};

/// An error and its sources.
fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
}

/// Asserts that no text is part of one before it.
fn says_it_once(error: &(dyn Error + 'static)) {
    let texts = chain(error);
    for (at, text) in texts.iter().enumerate() {
        let before = texts[..at].iter().find(|before| before.contains(text.as_str()));
        assert_eq!(before, None, "{text:?} is printed twice: {texts:#?}");
    }
}

#[test]
fn errors_of_the_framework_print_their_cause_once() {
    simulated_on(impatient, async |(server, zk)| {
        server.stop().await;
        let large = vec![0; 2 << 20];
        for error in [
            zk.get_data("/a").await.unwrap_err(),
            zk.create("/a").await.unwrap_err(),
            zk.create("/a").data(large).await.unwrap_err(),
            zk.create("no-slash").await.unwrap_err(),
            builder(&server).connect_string("a:b").build().unwrap_err(),
            builder(&server).connect_string("a:1/x//y").build().unwrap_err(),
            CuratorFramework::builder().namespace("/x").build().unwrap_err(),
            zk.typed::<String>().get("/a").await.unwrap_err(),
        ] {
            says_it_once(&error);
        }
        zk.close().await.unwrap_err();
    });
}

#[tokio::test]
async fn a_refused_connection_is_printed_once() {
    let zk = CuratorFramework::builder().connect_string("127.0.0.1:1");
    let zk = zk.connection_timeout(std::time::Duration::from_secs(2)).build().unwrap();
    let error = zk.start().await.unwrap_err();
    says_it_once(&error);
    assert!(error.to_string().contains("refused"), "{error}");
    // The value is there too.
    let cause =
        error.cause().and_then(|cause| cause.downcast_ref::<io::Error>()).expect("it is of I/O");
    assert_eq!(cause.kind(), io::ErrorKind::ConnectionRefused);
    says_it_once(cause);
    zk.close().await.ok();
}

#[test]
fn errors_of_counters_and_values_name_path_and_cause() {
    simulated(async {
        const PATH: &str = "/counters/orders";
        let (server, zk) = in_memory().await;
        let counter = DistributedAtomicLong::new(&zk, PATH);
        let value = SharedValue::open(&zk, PATH, &"seven".to_owned()).await.unwrap();
        let read = DistributedAtomicValue::<i64>::new(&zk, PATH).get().await.unwrap_err();
        let text = DistributedAtomicLong::builder(&zk, PATH).encoding(Encoding::Text).build();
        let undecodable = text.increment().await.unwrap_err();
        server.stop().await;
        let lost = counter.increment().await.unwrap_err();
        let counter::Error::Framework(why) = lost.clone() else { panic!("{lost:?}") };
        let unknown = counter::Error::Unknown { path: PATH.to_owned(), why: why.clone() };
        let denied = counter::Error::ReceiptDenied { parent: PATH.to_owned(), why: why.clone() };
        for error in [read, undecodable, lost, unknown, denied] {
            says_it_once(&error);
            assert!(error.to_string().contains(PATH), "{error}");
            if matches!(error, counter::Error::Undecodable { .. }) {
                continue;
            }
            assert!(error.to_string().contains("connection loss"), "{error}");
        }
        let unfollowed = shared::Error::Unfollowed { path: PATH.to_owned(), why };
        for error in [value.set(&"eight".to_owned()).await.unwrap_err(), unfollowed] {
            says_it_once(&error);
            assert!(
                error.to_string().contains(PATH) && error.to_string().contains("connection loss"),
                "{error}"
            );
        }
    });
}

/// The sources of all crates.
fn files() -> Vec<(String, String)> {
    let crates =
        ["proto", "client", "client-adapters", "src", "recipes", "testing", "benches", "examples"];
    let files = files_below(&crates, "rs");
    assert!(files.len() > 300, "only {} files were found", files.len());
    files
}

/// The definitions of errors with `thiserror`: each text, and what follows it up to the next.
fn definitions(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.split("#[error(").skip(1).filter_map(|rest| rest.split_once(")]\n"))
}

/// The fields of a definition that are its source, as its text would name them.
fn sources(fields: &str) -> Vec<&str> {
    let lines: Vec<&str> = fields.lines().map(str::trim).collect();
    // A variant ends before the documentation of the next one at the same level.
    let end = lines.iter().position(|line| *line == "}," || *line == "}").unwrap_or(lines.len());
    let lines = &lines[..end.max(1).min(lines.len())];
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_marked = |line: &str| line.contains("#[source]") || line.contains("#[from]");
        match line.split_once(':') {
            Some((name, _)) if name == "source" || (at > 0 && is_marked(lines[at - 1])) => {
                found.push(name);
            }
            None if at == 0 && line.contains('(') && is_marked(line) => found.push("0"),
            _ => {}
        }
    }
    found
}

#[test]
fn no_error_prints_its_source_itself() {
    let mut checked = 0;
    for (file, code) in files() {
        for (text, fields) in definitions(&code) {
            checked += 1;
            for source in sources(fields) {
                let printed = [format!("{{{source}}}"), format!("{{{source}:")];
                assert!(!printed.iter().any(|printed| text.contains(printed)), "{file}: {text}");
            }
        }
    }
    assert!(checked > 120, "only {checked} definitions were found");
}

/// Errors of recipes that concern no path: of a set or a body that has none, of the format of an
/// item, whose path is in the error that contains them.
const WITHOUT_PATH: [&str; 10] = [
    "no lock is given",
    "is not a valid id for a set of migrations",
    "two migrations of the set have the name",
    "the attempt is over and will be repeated",
    "the body has aborted the transaction",
    "not the version of the format",
    "ends too early",
    "neither an item nor the end",
    "cannot be decompressed",
    "a negative length",
];

/// Fields of other names that contain a path, and errors that print another one.
const WITH_PATH: [&str; 6] = ["path", "{parent}", "{lock}", "{item}", "{why}", "transparent"];

#[test]
fn errors_of_recipes_name_their_path() {
    let mut without = 0;
    for (file, code) in files().iter().filter(|(file, _)| file.starts_with("recipes/src")) {
        for (text, _) in definitions(code) {
            let has = |of: &[&str]| of.iter().any(|part| text.contains(part));
            without += usize::from(has(&WITHOUT_PATH));
            assert!(has(&WITH_PATH) || has(&WITHOUT_PATH), "{file}: {text}");
        }
    }
    assert_eq!(without, WITHOUT_PATH.len());
}

#[test]
fn definitions_of_errors_are_read() {
    let code = "
        #[error(\"one: {why}\")]\n        One {\n            #[source]\n            why: Why,\n        },
        #[error(\"two\")]\n        Two {\n            source: Why,\n        },
        #[error(\"three: {0}\")]\n        Three(#[from] Why),
        #[error(\"four: {why}\")]\n        Four {\n            why: Why,\n        },\n";
    let read: Vec<_> = definitions(code).map(|(text, fields)| (text, sources(fields))).collect();
    let expected = [
        ("\"one: {why}\"", vec!["why"]),
        ("\"two\"", vec!["source"]),
        ("\"three: {0}\"", vec!["0"]),
        ("\"four: {why}\"", vec![]),
    ];
    assert_eq!(read, expected);
}
