//! What `etcd-client` does when a response is lost, a lease ends, and a future is dropped, on a real
//! etcd behind a relay. Prints its column of the guide's page "Other crates".
//!
//! Run `cargo run --manifest-path benches/peers/clients/Cargo.toml --features etcd --bin trial-etcd
//! -- HOST:PORT`. It needs Debian's `protobuf-compiler` to build, and an etcd.

#[path = "../trial.rs"]
mod trial;

use std::sync::Arc;

use etcd_client::{Client, GetOptions, LockOptions, PutOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use trial::{DROPPED, LATE, REPAIR, Result, ended};

/// The time to live of a lease, in seconds.
const TTL: i64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Healthy,
    /// Nothing comes back.
    LosesResponses,
    /// Requests arrive later.
    Late,
    /// Connections end.
    Cut,
}

/// Forwards connections to etcd.
struct Relay {
    address: String,
    network: watch::Sender<Network>,
}

impl Relay {
    async fn to(server: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let network = watch::Sender::new(Network::Healthy);
        let seen = network.subscribe();
        let server: Arc<str> = server.into();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&*server).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(forward(from_client, to_server, seen.clone(), Network::Late));
                tokio::spawn(forward(
                    from_server,
                    to_client,
                    seen.clone(),
                    Network::LosesResponses,
                ));
            }
        });
        Ok(Self { address, network })
    }
}

/// Copies bytes, except for what this fault does to them.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
    fault: Network,
) {
    let mut bytes = vec![0; 65_536];
    loop {
        let count = tokio::select! {
            count = from.read(&mut bytes) => count.unwrap_or(0),
            _ = network.wait_for(|now| *now == Network::Cut) => 0,
        };
        if count == 0 {
            return;
        }
        let now = *network.borrow();
        if now == fault {
            if fault == Network::LosesResponses {
                continue;
            }
            sleep(LATE).await;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn count(direct: &mut Client, prefix: &str) -> Result<i64> {
    let options = GetOptions::new().with_prefix().with_count_only();
    Ok(direct.get(prefix, Some(options)).await?.count())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = std::env::args().nth(1).ok_or("HOST:PORT of an etcd")?;
    let mut direct = Client::connect([&*server], None).await?;
    let run = std::process::id();

    let relay = Relay::to(server.clone()).await?;
    let mut client = Client::connect([&*relay.address], None).await?;
    let lease = client.lease_grant(TTL, None).await?.id();
    let options = || Some(PutOptions::new().with_lease(lease));
    relay.network.send_replace(Network::LosesResponses);
    let key = format!("/{run}/lost");
    let put = ended(client.put(&*key, "1", options()));
    let cut = async {
        while count(&mut direct, &key).await? == 0 {
            sleep(DROPPED).await;
        }
        relay.network.send_replace(Network::Cut);
        Ok(()) as Result<()>
    };
    let (put, cut) = tokio::join!(put, cut);
    cut?;
    println!("a put whose response is lost {put}; {} keys", count(&mut direct, &key).await?);
    relay.network.send_replace(Network::Healthy);
    let again = ended(client.put(&*key, "2", options())).await;
    println!("the next put {again}");

    direct.lease_revoke(lease).await?;
    let later = ended(client.put(&*key, "3", options())).await;
    println!(
        "after the end of the lease, a put with it {later}; {} keys",
        count(&mut direct, &key).await?
    );
    let read = ended(client.get(&*key, None)).await;
    println!("a read {read}");

    relay.network.send_replace(Network::Late);
    let key = format!("/{run}/dropped");
    let dropped = timeout(DROPPED, client.put(&*key, "1", None)).await;
    assert!(dropped.is_err(), "{dropped:?}");
    relay.network.send_replace(Network::Healthy);
    sleep(REPAIR).await;
    println!("after a put whose future is dropped: {} keys", count(&mut direct, &key).await?);

    let key = format!("/{run}/lock");
    let held = direct.lock(&*key, None).await?;
    let lease = client.lease_grant(TTL * 6, None).await?.id();
    let waits = timeout(LATE, client.lock(&*key, Some(LockOptions::new().with_lease(lease)))).await;
    assert!(waits.is_err(), "{waits:?}");
    sleep(REPAIR).await;
    println!(
        "after a waiting lock whose future is dropped: {} keys, with the holder's",
        count(&mut direct, &key).await?
    );
    direct.unlock(held.key()).await?;
    Ok(())
}
