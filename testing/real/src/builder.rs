//! The settings of a server of Apache ZooKeeper.

use std::path::PathBuf;
use std::time::Duration;

use crate::java;

/// Settings of a [`RealZooKeeper`](crate::RealZooKeeper).
#[derive(Debug, Clone)]
#[must_use = "nothing is started before `start`"]
pub struct RealZooKeeperBuilder {
    pub(super) tick_time: Duration,
    pub(super) min_session_timeout: Option<Duration>,
    pub(super) max_session_timeout: Duration,
    pub(super) jar_directories: Vec<PathBuf>,
    pub(super) data_directory: Option<PathBuf>,
    pub(super) jvm_options: Vec<String>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) start_timeout: Duration,
}

impl Default for RealZooKeeperBuilder {
    fn default() -> Self {
        Self {
            tick_time: Duration::from_millis(500),
            min_session_timeout: None,
            max_session_timeout: Duration::from_secs(60),
            jar_directories: java::jar_directories(),
            data_directory: None,
            jvm_options: Vec::new(),
            settings: Vec::new(),
            start_timeout: Duration::from_secs(120),
        }
    }
}

impl RealZooKeeperBuilder {
    /// Sets `tickTime`: sessions expire at multiples of it. Default: 500 ms.
    pub const fn tick_time(mut self, tick_time: Duration) -> Self {
        self.tick_time = tick_time;
        self
    }

    /// Sets `minSessionTimeout`. Default: two ticks.
    pub const fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(timeout);
        self
    }

    /// Sets `maxSessionTimeout`. Default: 60 s.
    pub const fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.max_session_timeout = timeout;
        self
    }

    /// Sets the directories that are searched for the libraries. Default: `ZOOKEEPER_JARS`, else
    /// `/usr/share/java`.
    pub fn jar_directories(
        mut self,
        directories: impl IntoIterator<Item = impl Into<PathBuf>>,
    ) -> Self {
        self.jar_directories = directories.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the directory of snapshots and transaction logs, which is not removed on drop. Default:
    /// a temporary directory, which is removed.
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(directory.into());
        self
    }

    /// Sets a system property of the JVM, for example `znode.container.checkIntervalMs`. The last
    /// value wins.
    pub fn jvm_property(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.jvm_options.push(format!("-D{name}={value}"));
        self
    }

    /// Adds an option of the JVM, for example `-Xmx1g`. The last one wins.
    pub fn jvm_option(mut self, option: impl Into<String>) -> Self {
        self.jvm_options.push(option.into());
        self
    }

    /// Makes the JVM compile little (`-XX:TieredStopAtLevel=1`): a server of a test, which runs for
    /// seconds, takes half the CPU time. An option that was added by then or later wins.
    pub fn quick_start(mut self) -> Self {
        self.jvm_options.insert(0, "-XX:TieredStopAtLevel=1".to_owned());
        self
    }

    /// Adds a line of `zoo.cfg`. The last one wins.
    pub fn setting(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sets the time that the server may take until it serves. Default: 120 s, for busy machines: a
    /// server that cannot start ends.
    pub const fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }
}
