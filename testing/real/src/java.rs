//! Finds Java and its libraries, and runs small Java programs next to a test.
//!
//! The programs are plain source files that are named as their class. Files next to them may
//! contain further classes. They use Apache ZooKeeper's own client and Apache Curator, which this
//! project did not write.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs};

use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use super::error::{RealError, io_error};
use super::temp_dir::TempDir;

/// The directory of the libraries in Debian's packages.
const DEBIAN_JARS: &str = "/usr/share/java";

/// The libraries of Apache ZooKeeper, server and client, by the names without version that Debian
/// links.
const ZOOKEEPER: [&str; 6] =
    ["zookeeper", "zookeeper-jute", "slf4j-api", "netty-all", "snappy-java", "metrics-core"];

/// The libraries of ZooKeeper's TLS network layer, unless they are in `netty-all`, which is empty
/// in Debian's package. ZooKeeper 3.9 asks for the last two, and works if they do not.
const NETTY: [&str; 8] = [
    "netty-common",
    "netty-buffer",
    "netty-resolver",
    "netty-transport",
    "netty-codec",
    "netty-handler",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
];

/// The additional libraries of Apache Curator and of the command line of ZooKeeper.
const CURATOR: [&str; 9] = [
    "commons-cli",
    "curator-client",
    "curator-framework",
    "curator-recipes",
    "curator-x-discovery",
    "guava",
    "jackson-core",
    "jackson-databind",
    "jackson-annotations",
];

/// The libraries that programs may use where they are installed, with their packages: Curator's own
/// server for tests, and its asynchronous framework, which Debian does not package.
const OPTIONAL: [(&str, &str); 2] = [
    ("curator-test", "org.apache.curator.test."),
    ("curator-x-async", "org.apache.curator.x.async."),
];

/// The programs of a folder, which are compiled once.
type Folder = Arc<OnceCell<TempDir>>;

/// The folders whose programs this process has compiled.
static FOLDERS: Mutex<BTreeMap<PathBuf, Folder>> = Mutex::new(BTreeMap::new());

/// A compiled Java program, with Apache ZooKeeper and Apache Curator on its class path.
///
/// The classes are in a temporary directory that is removed at the end of this process.
#[derive(Debug)]
pub struct Program {
    java: PathBuf,
    class: OsString,
    class_path: OsString,
}

impl Program {
    /// Returns the program of `source`, for example `tests/interop/CuratorMutexContender.java`.
    ///
    /// The first program of a folder compiles all of them, because a compiler that starts several
    /// times takes longer. A source that imports an optional library is left out if that library
    /// is not installed, see [`has_library`].
    ///
    /// # Errors
    /// The errors of [`available`], [`RealError::Compile`] with the output of the compiler,
    /// [`RealError::JarMissing`] if the source was left out, or [`RealError::Io`].
    ///
    /// # Cancel safety
    /// Dropping the future kills the compiler and removes its output.
    pub async fn compile(source: impl AsRef<Path>) -> Result<Self, RealError> {
        let source = source.as_ref();
        let java = find_program("java")?;
        let libraries = curator_jars()?;
        if let Some(jar) = missing_library(source)? {
            return Err(RealError::JarMissing { jar, directories: jar_directories() });
        }
        let folder = source.parent().unwrap_or(source);
        let folder = fs::canonicalize(folder).map_err(io_error("find", folder))?;
        let compiled = {
            let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(folders.entry(folder.clone()).or_default())
        };
        let classes = compiled.get_or_try_init(|| compile(&folder, &libraries)).await?;
        Ok(Self {
            java,
            class: source.file_stem().unwrap_or_default().to_owned(),
            class_path: class_path(
                [classes.path()].into_iter().chain(libraries.iter().map(PathBuf::as_path)),
            )?,
        })
    }

    /// Returns a program of the installed libraries, by the full name of its class.
    ///
    /// # Errors
    /// [`RealError::JavaMissing`] or [`RealError::JarMissing`], naming what is missing.
    pub fn installed(class: &str) -> Result<Self, RealError> {
        let libraries = curator_jars()?;
        let class_path = class_path(libraries.iter().map(PathBuf::as_path))?;
        Ok(Self { java: find_program("java")?, class: class.into(), class_path })
    }

    /// Starts the program. Its standard input and output are piped, and it inherits standard error.
    /// Dropping the [`Child`] kills it.
    ///
    /// # Errors
    /// [`RealError::Io`] when the process cannot be started.
    pub fn spawn(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Child, RealError> {
        // The programs run for a few seconds: compile little, and do not size the heap by the
        // memory of the machine.
        self.command(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| RealError::Io { what: "run", path: self.java.clone(), source })
    }

    /// Returns the command that runs the program, with options for the virtual machine and without
    /// arguments. It is for programs that run long enough for these options to matter.
    /// [`spawn`](Program::spawn) starts all others.
    pub fn command(&self, options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.java);
        command.args(options).arg("-cp").arg(&self.class_path).arg(&self.class);
        command
    }
}

/// Returns `true` if Java programs can be compiled and run against Apache Curator.
///
/// # Errors
/// [`RealError::JavaMissing`] or [`RealError::JarMissing`], naming what is missing.
pub fn available() -> Result<(), RealError> {
    find_program("javac")?;
    find_program("java")?;
    curator_jars()?;
    Ok(())
}

/// Returns `true` if this library is installed, by its name without the version.
#[must_use]
pub fn has_library(name: &'static str) -> bool {
    find_jar(&jar_directories(), name).is_ok()
}

fn curator_jars() -> Result<Vec<PathBuf>, RealError> {
    let directories = jar_directories();
    let mut jars = zookeeper_jars(&directories, "slf4j-nop")?;
    for jar in CURATOR {
        jars.push(find_jar(&directories, jar)?);
    }
    jars.extend(OPTIONAL.into_iter().filter_map(|(jar, _)| find_jar(&directories, jar).ok()));
    Ok(jars)
}

/// Compiles the programs of a folder.
async fn compile(folder: &Path, libraries: &[PathBuf]) -> Result<TempDir, RealError> {
    let javac = find_program("javac")?;
    let classes = TempDir::new("java")?;
    let output = Command::new(&javac)
        // These options halve the CPU time, as for the programs themselves.
        .args(["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"])
        .arg("-proc:none")
        .arg("-cp")
        .arg(class_path(libraries.iter().map(PathBuf::as_path))?)
        .arg("-d")
        .arg(classes.path())
        .args(sources(folder)?)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(io_error("run", &javac))?;
    if !output.status.success() {
        let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        return Err(RealError::Compile { folder: folder.to_owned(), output: text });
    }
    Ok(classes)
}

/// Returns the sources in a folder, except those that need a library that is not installed.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, RealError> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error("read", folder))? {
        let path = entry.map_err(io_error("read", folder))?.path();
        let is_java = path.extension().is_some_and(|extension| extension == "java");
        if is_java && missing_library(&path)?.is_none() {
            sources.push(path);
        }
    }
    Ok(sources)
}

/// Returns the optional library that a source imports and that is not installed.
fn missing_library(source: &Path) -> Result<Option<&'static str>, RealError> {
    let text = fs::read_to_string(source).map_err(io_error("read", source))?;
    let imports = |package: &str| {
        text.lines().any(|line| line.starts_with("import ") && line.contains(package))
    };
    let missing = OPTIONAL.into_iter().find(|(jar, package)| imports(package) && !has_library(jar));
    Ok(missing.map(|(jar, _)| jar))
}

/// Finds the libraries of Apache ZooKeeper, with `logging` as the binding of slf4j.
pub(super) fn zookeeper_jars(
    directories: &[PathBuf],
    logging: &'static str,
) -> Result<Vec<PathBuf>, RealError> {
    let required = ZOOKEEPER.into_iter().chain([logging]).map(|jar| find_jar(directories, jar));
    let found = NETTY.into_iter().filter_map(|jar| find_jar(directories, jar).ok());
    required.chain(found.map(Ok)).collect()
}

/// Returns the directories of `ZOOKEEPER_JARS`, separated by colons, or Debian's.
pub(super) fn jar_directories() -> Vec<PathBuf> {
    match env::var_os("ZOOKEEPER_JARS") {
        Some(directories) if !directories.is_empty() => env::split_paths(&directories).collect(),
        _ => vec![DEBIAN_JARS.into()],
    }
}

/// Finds `NAME.jar`, else the last of `NAME-<version>.jar`, in the first directory that has one.
fn find_jar(directories: &[PathBuf], jar: &'static str) -> Result<PathBuf, RealError> {
    let plain = format!("{jar}.jar");
    for directory in directories {
        let path = directory.join(&plain);
        if path.is_file() {
            return Ok(path);
        }
        let Ok(entries) = fs::read_dir(directory) else { continue };
        let versioned = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| {
                name.strip_suffix(".jar")
                    .and_then(|name| name.strip_prefix(jar)?.strip_prefix('-'))
                    .is_some_and(|version| {
                        version.starts_with(|digit: char| digit.is_ascii_digit())
                    })
            })
            .max();
        if let Some(name) = versioned {
            return Ok(directory.join(name));
        }
    }
    Err(RealError::JarMissing { jar, directories: directories.to_vec() })
}

/// Finds `java` or `javac`: in `JAVA_HOME`, else the first in `PATH`.
pub(super) fn find_program(program: &'static str) -> Result<PathBuf, RealError> {
    let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    home.into_iter()
        .chain(env::split_paths(&path))
        .map(|directory| directory.join(format!("{program}{}", env::consts::EXE_SUFFIX)))
        .find(|candidate| candidate.is_file())
        .ok_or(RealError::JavaMissing { program })
}

/// Joins the entries by colons, for `-cp`.
pub(super) fn class_path<'a>(
    entries: impl IntoIterator<Item = &'a Path>,
) -> Result<OsString, RealError> {
    env::join_paths(entries).map_err(|error| RealError::Io {
        what: "use",
        path: "the class path".into(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jar_is_found_with_and_without_version_and_never_by_prefix() {
        let dir = TempDir::new("zk-curator-jars").unwrap();
        for name in
            ["zookeeper-jute-3.9.2.jar", "zookeeper-3.9.1.jar", "zookeeper-3.9.2.jar", "guava.jar"]
        {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let nowhere = dir.path().join("absent");
        let directories = [nowhere, dir.path().to_owned()];
        let found = |jar| find_jar(&directories, jar).unwrap().file_name().unwrap().to_owned();
        assert_eq!(found("zookeeper"), "zookeeper-3.9.2.jar");
        assert_eq!(found("zookeeper-jute"), "zookeeper-jute-3.9.2.jar");
        assert_eq!(found("guava"), "guava.jar");
        let missing = find_jar(&directories, "netty-all").unwrap_err();
        assert!(missing.to_string().starts_with("netty-all.jar was not found in"), "{missing}");
    }
}
