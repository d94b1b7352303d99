//! One server for all tests of a process that only need nodes of their own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::OnceCell;

use super::launch::blocking;
use super::session::Session;
use super::{RealZooKeeper, runs};

/// The server. A static is never dropped, but the server ends with this process.
static SERVER: OnceCell<RealZooKeeper> = OnceCell::const_new();

/// The number of chroots that were made.
static CHROOTS: AtomicU32 = AtomicU32::new(0);

/// The timeout of the session that makes a chroot, in milliseconds.
const TIMEOUT: i32 = 30_000;

/// A chroot of its own on an Apache ZooKeeper that all tests of this process share.
///
/// The server has the default settings. A test that stops it, counts its sessions or watches, or
/// reads its root has to start a server of its own: see [`or_skip`](super::or_skip).
#[derive(Debug, Clone)]
pub struct Chroot {
    server: &'static RealZooKeeper,
    path: String,
}

impl Chroot {
    /// Returns the address of the server with the chroot, for example
    /// `127.0.0.1:20123/one_holder-1`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        format!("{}{}", self.server.connect_string(), self.path)
    }

    /// Returns the path of the chroot, for example `/one_holder-1`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }
}

/// Makes a chroot for `test` on the server that all tests of this process share, and starts that
/// server before the first one. If Apache ZooKeeper is not installed, prints a line to standard
/// error and returns `None`.
///
/// # Panics
/// As [`or_skip`](super::or_skip).
///
/// # Cancel safety
/// If the future is dropped, the server stays for other tests.
pub async fn chroot_or_skip(test: &str) -> Option<Chroot> {
    if !runs(test, RealZooKeeper::available()) {
        return None;
    }
    let start = || RealZooKeeper::builder().quick_start().start();
    let server = SERVER.get_or_try_init(start).await;
    let server = server.unwrap_or_else(|error| panic!("{test}: {error}"));
    let number = CHROOTS.fetch_add(1, Ordering::Relaxed);
    let chroot = Chroot { server, path: format!("/{test}-{number}") };
    let (addr, path) = (chroot.addr(), chroot.path.clone());
    let made = blocking(move || {
        let mut session = Session::open(addr, TIMEOUT);
        session.create(&path, b"");
        session.close();
        Ok(())
    });
    made.await.unwrap_or_else(|error| panic!("{test}: {error}"));
    Some(chroot)
}
