//! Starts MIT's Kerberos server, for tests of clients that authenticate with Kerberos.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::error::io_error;
use super::home::Guarded;
use super::launch::{POLL, signal, wait_until_suspended};
use super::ports::free_port;
use super::{RealError, RealZooKeeperBuilder};

/// The time that the server may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The programs, with their Debian packages.
const PROGRAMS: [(&str, &str); 4] = [
    ("krb5kdc", "krb5-kdc"),
    ("kdb5_util", "krb5-kdc"),
    ("kadmin.local", "krb5-admin-server"),
    ("kinit", "krb5-user"),
];

/// A Kerberos server with its own realm, on 127.0.0.1, in a process of its own.
///
/// The Kerberos library of a client takes its configuration from the environment of its process:
/// see [`Kdc::environment`]. Dropping the server kills its process. Its files stay.
#[derive(Debug)]
pub struct Kdc {
    home: PathBuf,
    port: u16,
    process: Option<Child>,
    guarded: Option<Guarded>,
}

impl Kdc {
    /// The realm.
    pub const REALM: &'static str = "EXAMPLE.TEST";

    /// Returns `Ok` if a server can be started here.
    ///
    /// # Errors
    /// [`RealError::KerberosMissing`], naming what is missing.
    pub fn available() -> Result<(), RealError> {
        PROGRAMS.iter().try_for_each(|(program, _)| find(program).map(drop))
    }

    /// Returns the environment of a process whose Kerberos library uses the server with its files
    /// in `home`: its ticket cache is the file [`Kdc::cache`], and its client keytab the file
    /// [`Kdc::client_keytab`]. Neither of them exists at first.
    #[must_use]
    pub fn environment(home: &Path) -> [(&'static str, OsString); 3] {
        let mut cache = OsString::from("FILE:");
        cache.push(home.join("cache"));
        [
            ("KRB5_CONFIG", home.join("krb5.conf").into()),
            ("KRB5CCNAME", cache),
            ("KRB5_CLIENT_KTNAME", home.join("client.keytab").into()),
        ]
    }

    /// Makes a realm, with its files in the existing directory `home`, and starts its server. Its
    /// tickets last for `ticket_life`, in whole seconds and at most a day.
    ///
    /// # Errors
    /// * [`RealError::KerberosMissing`]: a program is not installed.
    /// * [`RealError::KerberosFailed`]: a program failed; the error has its output.
    /// * [`RealError::Io`]: a file cannot be written, or a program cannot be run.
    ///
    /// # Cancel safety
    /// If the future is dropped, no process stays. Files may stay.
    pub async fn start(home: &Path, ticket_life: Duration) -> Result<Self, RealError> {
        let mut kdc =
            Self { home: home.to_owned(), port: free_port()?, process: None, guarded: None };
        let (realm, port, directory) = (Self::REALM, kdc.port, home.display());
        // Names are not looked up, so the principal of a server is that of the connect string. The
        // library does not adjust its clock to that of the server, so different clocks are seen.
        kdc.write(
            "krb5.conf",
            &format!(
                "[libdefaults]\n default_realm = {realm}\n dns_lookup_realm = false\n \
                 dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n rdns = false\n \
                 kdc_timesync = 0\n udp_preference_limit = 1\n\
                 [realms]\n {realm} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
            ),
        )?;
        kdc.write(
            "kdc.conf",
            &format!(
                "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
                 [realms]\n {realm} = {{\n  database_name = {directory}/principal\n  \
                 key_stash_file = {directory}/stash\n  acl_file = {directory}/acl\n  \
                 max_life = {}s\n }}\n[logging]\n kdc = FILE:{directory}/kdc.log\n",
                ticket_life.as_secs()
            ),
        )?;
        kdc.run("kdb5_util", &["create", "-s", "-r", realm, "-P", "master"]).await?;
        kdc.restart().await?;
        Ok(kdc)
    }

    /// Returns the ticket cache of [`Kdc::environment`].
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.home.join("cache")
    }

    /// Returns the client keytab of [`Kdc::environment`].
    #[must_use]
    pub fn client_keytab(&self) -> PathBuf {
        self.home.join("client.keytab")
    }

    /// Returns the configuration for clients.
    #[must_use]
    pub fn krb5_conf(&self) -> PathBuf {
        self.home.join("krb5.conf")
    }

    /// Adds a principal with a random key.
    ///
    /// # Errors
    /// [`RealError::KerberosFailed`], [`RealError::Io`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the principal may have been added.
    pub async fn add(&self, principal: &str) -> Result<(), RealError> {
        self.admin(&["addprinc", "-randkey", principal]).await
    }

    /// Removes a principal.
    ///
    /// # Errors
    /// [`RealError::KerberosFailed`], [`RealError::Io`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the principal may have been removed.
    pub async fn remove(&self, principal: &str) -> Result<(), RealError> {
        self.admin(&["delprinc", "-force", principal]).await
    }

    /// Replaces the key of a principal by another random one.
    ///
    /// # Errors
    /// [`RealError::KerberosFailed`], [`RealError::Io`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the key may have been replaced.
    pub async fn change_key(&self, principal: &str) -> Result<(), RealError> {
        self.admin(&["cpw", "-randkey", principal]).await
    }

    /// Adds the keys of a principal to a keytab.
    ///
    /// # Errors
    /// [`RealError::KerberosFailed`], [`RealError::Io`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the keys may have been added.
    pub async fn export(&self, principal: &str, keytab: &Path) -> Result<(), RealError> {
        let keytab = keytab.display().to_string();
        self.admin(&["ktadd", "-k", &keytab, "-norandkey", principal]).await
    }

    /// Puts a ticket of a principal into [`Kdc::cache`], with its keys in `keytab`, like a user
    /// that calls `kinit`.
    ///
    /// # Errors
    /// [`RealError::KerberosFailed`], [`RealError::Io`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the ticket may be in the cache.
    pub async fn kinit(&self, principal: &str, keytab: &Path) -> Result<(), RealError> {
        let (cache, keytab) = (self.cache().display().to_string(), keytab.display().to_string());
        self.run("kinit", &["-c", &cache, "-k", "-t", &keytab, principal]).await
    }

    /// Waits until the ticket in [`Kdc::cache`] has expired.
    ///
    /// # Errors
    /// [`RealError::Io`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    #[expect(clippy::disallowed_methods, reason = "it polls a program")]
    pub async fn ticket_expired(&self) -> Result<(), RealError> {
        let klist = find("klist")?;
        loop {
            let status = Command::new(&klist)
                .args(["-s", "-c"])
                .arg(self.cache())
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .status()
                .await
                .map_err(io_error("run", &klist))?;
            if !status.success() {
                return Ok(());
            }
            sleep(POLL * 5).await;
        }
    }

    /// Stops the server. Has no effect if it is stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is stopped even if the future is dropped.
    pub async fn stop(&mut self) -> Result<(), RealError> {
        self.guarded = None;
        match self.process.take() {
            None => Ok(()),
            Some(mut process) => {
                process.kill().await.map_err(io_error("kill", Path::new("krb5kdc")))
            }
        }
    }

    /// Suspends the server: it takes connections, and does not respond. Has no effect if it is
    /// stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    pub fn pause(&self) -> Result<(), RealError> {
        self.send("STOP")?;
        if let Some(id) = self.process.as_ref().and_then(Child::id) {
            wait_until_suspended(id);
        }
        Ok(())
    }

    /// Resumes the server after [`Kdc::pause`].
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    pub fn resume(&self) -> Result<(), RealError> {
        self.send("CONT")
    }

    fn send(&self, name: &str) -> Result<(), RealError> {
        self.process.as_ref().and_then(Child::id).map_or(Ok(()), |id| signal(id, name))
    }

    /// Starts the server, and returns when it serves. A running server is stopped first.
    ///
    /// # Errors
    /// [`RealError::KerberosFailed`], [`RealError::Io`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server is stopped.
    pub async fn restart(&mut self) -> Result<(), RealError> {
        let program = find("krb5kdc")?;
        self.begin(Command::new(program)).await
    }

    /// Starts the server with a clock that is an hour ahead. A running server is stopped first.
    ///
    /// # Errors
    /// [`RealError::KerberosMissing`] if `faketime` is not installed; otherwise as
    /// [`Kdc::restart`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server is stopped.
    pub async fn restart_an_hour_ahead(&mut self) -> Result<(), RealError> {
        const AHEAD: &str = "+1h";
        // `faketime` stays between this process and the program, so killing it would leave the
        // program. It only tells where its library is.
        let output = self.output("faketime", &["-f", AHEAD, "printenv", "LD_PRELOAD"]).await?;
        let mut command = Command::new(find("krb5kdc")?);
        command.env("LD_PRELOAD", output.trim()).env("FAKETIME", AHEAD);
        self.begin(command).await
    }

    #[expect(clippy::disallowed_methods, reason = "it polls a process")]
    async fn begin(&mut self, mut command: Command) -> Result<(), RealError> {
        self.stop().await?;
        self.environ(&mut command).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.arg("-n").kill_on_drop(true).spawn();
        let process = self.process.insert(process.map_err(io_error("run", "krb5kdc".as_ref()))?);
        self.guarded = process.id().map(Guarded::new).transpose()?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let started = Instant::now();
        loop {
            let ended = process.try_wait().map_err(io_error("wait for", "krb5kdc".as_ref()))?;
            if ended.is_some() || started.elapsed() >= START_TIMEOUT {
                let output = fs::read_to_string(self.home.join("kdc.log")).unwrap_or_default();
                return Err(RealError::KerberosFailed { program: "krb5kdc", output });
            }
            if TcpStream::connect(addr).is_ok() {
                return Ok(());
            }
            sleep(POLL).await;
        }
    }

    /// Configures a server of Apache ZooKeeper as the service `principal`, with its keys in
    /// `keytab`. It needs no ticket, and therefore no running Kerberos server.
    ///
    /// # Errors
    /// [`RealError::Io`].
    pub fn secure(
        &self,
        builder: RealZooKeeperBuilder,
        principal: &str,
        keytab: &Path,
    ) -> Result<RealZooKeeperBuilder, RealError> {
        let jaas = self.write(
            "server.jaas",
            &format!(
                "Server {{\n  com.sun.security.auth.module.Krb5LoginModule required\n  \
                 useKeyTab=true storeKey=true useTicketCache=false isInitiator=false\n  \
                 keyTab=\"{}\" principal=\"{principal}@{}\";\n}};\n",
                keytab.display(),
                Self::REALM
            ),
        )?;
        Ok(builder
            .jvm_property("java.security.auth.login.config", jaas.display())
            .jvm_property("java.security.krb5.conf", self.krb5_conf().display())
            .setting(
                "authProvider.1",
                "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            ))
    }

    /// Returns the options of a virtual machine whose ZooKeeper clients are `principal`, with its
    /// keys in `keytab`.
    ///
    /// # Errors
    /// [`RealError::Io`].
    pub fn java_client(&self, principal: &str, keytab: &Path) -> Result<[String; 2], RealError> {
        let jaas = self.write(
            "client.jaas",
            &format!(
                "Client {{\n  com.sun.security.auth.module.Krb5LoginModule required\n  \
                 useKeyTab=true storeKey=true useTicketCache=false\n  \
                 keyTab=\"{}\" principal=\"{principal}@{}\";\n}};\n",
                keytab.display(),
                Self::REALM
            ),
        )?;
        Ok([
            format!("-Djava.security.auth.login.config={}", jaas.display()),
            format!("-Djava.security.krb5.conf={}", self.krb5_conf().display()),
        ])
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, RealError> {
        let path = self.home.join(name);
        fs::write(&path, text).map_err(io_error("write", &path))?;
        Ok(path)
    }

    async fn admin(&self, words: &[&str]) -> Result<(), RealError> {
        self.run("kadmin.local", words).await
    }

    async fn run(&self, program: &'static str, args: &[&str]) -> Result<(), RealError> {
        self.output(program, args).await.map(drop)
    }

    /// Returns the standard output of a program that succeeds.
    async fn output(&self, program: &'static str, args: &[&str]) -> Result<String, RealError> {
        let path = find(program)?;
        let mut command = Command::new(&path);
        self.environ(&mut command).args(args).kill_on_drop(true);
        let output = command.output().await.map_err(io_error("run", &path))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Err(RealError::KerberosFailed { program, output: text })
    }

    fn environ<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("KRB5_CONFIG", self.krb5_conf())
            .env("KRB5_KDC_PROFILE", self.home.join("kdc.conf"))
            .env_remove("KRB5CCNAME")
            .env_remove("KRB5_CLIENT_KTNAME")
            .stdin(Stdio::null())
    }
}

/// Finds a program: in `PATH`, which does not contain `/usr/sbin` for most users, or there.
fn find(program: &str) -> Result<PathBuf, RealError> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| missing(program))
}

fn missing(program: &str) -> RealError {
    let known = PROGRAMS.iter().find(|(name, _)| *name == program);
    let (program, package) = match known {
        Some(known) => *known,
        None if program == "faketime" => ("faketime", "faketime"),
        None => ("klist", "krb5-user"),
    };
    RealError::KerberosMissing { program, package }
}
