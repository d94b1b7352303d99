//! Four processes move money between accounts, without a lock. The responses of one of them are
//! lost now and then, and the total is still exact.
//!
//! Run `cargo run --example transfer`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use tokio::net::lookup_host;
use zk_curator::CuratorFramework;
use zk_curator_recipes::stm::{Error, Stm, Tx};
use zk_curator_testing::{FaultProxy, OpCode, RuleRequest, Verdict};

const ACCOUNTS: usize = 4;
const EACH: usize = 25;
const BALANCE: i64 = 100;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("transfer").await;
    let zk = stage.client().await?;
    let root = stage.root.as_str();
    let bank = Stm::space(&zk, root);
    bank.atomically(|tx| async move {
        (0..ACCOUNTS).try_for_each(|account| tx.put(format!("{root}/{account}"), &BALANCE))
    })
    .await?;

    // The network of one of the four loses responses.
    let server = lookup_host(&stage.servers).await?.next().ok_or("no server")?;
    let network = FaultProxy::start(&[server]).await?;
    let cut_off = CuratorFramework::builder().connect_string(network.connect_string()).build()?;
    cut_off.start().await?;

    let mut processes = Vec::new();
    for from in 1..ACCOUNTS {
        let client = stage.client().await?;
        let root = stage.root.clone();
        processes.push(tokio::spawn(async move {
            let attempts = work(&client, &root, from, |_| async {}).await?;
            client.close().await?;
            Result::Ok(attempts)
        }));
    }
    // The server applies the transaction, but its response is lost. The rule is installed before
    // the transfer begins.
    let lose = |round: usize| {
        let commit = |request: &RuleRequest<'_>| match request.opcode() {
            OpCode::Multi => Verdict::LoseReply,
            _ => Verdict::Pass,
        };
        let rule = round.is_multiple_of(10).then(|| network.rule(commit).times(1));
        async move {
            if let Some(rule) = rule {
                rule.fired().await;
                println!("a response is lost");
            }
        }
    };
    let mut attempts = work(&cut_off, root, 0, lose).await?;
    for process in processes {
        attempts += process.await??;
    }
    println!("{} transfers took {attempts} attempts", ACCOUNTS * EACH);

    let read = bank.transaction().linearizable().run(|tx| balances(tx, root));
    let balances = read.await?.value;
    println!("balances: {balances:?}, total {}", balances.iter().sum::<i64>());
    if balances.iter().sum::<i64>() != BALANCE * ACCOUNTS as i64 {
        return Err("money was lost".into());
    }
    drop(bank);
    cut_off.close().await?;
    stage.clear(&zk).await
}

/// Moves money from one account to the next ones. Returns the number of attempts.
async fn work<Fut: Future<Output = ()>>(
    zk: &CuratorFramework,
    root: &str,
    from: usize,
    meanwhile: impl Fn(usize) -> Fut,
) -> Result<u32> {
    let bank = Stm::space(zk, root);
    let mut attempts = 0;
    for round in 0..EACH {
        let to = (from + 1 + round % (ACCOUNTS - 1)) % ACCOUNTS;
        let transfer = bank.atomically(|tx| async move {
            let balances = balances(tx.clone(), root).await?;
            // Holds in every attempt, even if it will not be committed.
            assert_eq!(balances.iter().sum::<i64>(), BALANCE * ACCOUNTS as i64);
            tx.put(format!("{root}/{from}"), &(balances[from] - 1))?;
            tx.put(format!("{root}/{to}"), &(balances[to] + 1))
        });
        let (done, ()) = tokio::join!(transfer, meanwhile(round));
        attempts += done?.attempts;
    }
    Ok(attempts)
}

async fn balances(tx: Tx, root: &str) -> std::result::Result<Vec<i64>, Error> {
    let mut balances = Vec::new();
    for account in 0..ACCOUNTS {
        let balance = tx.get_typed(format!("{root}/{account}")).await?;
        balances.push(balance.ok_or_else(|| Error::abort("no such account"))?);
    }
    Ok(balances)
}
