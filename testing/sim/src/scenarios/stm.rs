//! [`stm`](zk_curator_recipes::stm): clients move money between three accounts, which they also
//! open, close and replace. The total is the same in every state, and every body checks that. Each
//! value is unique, so the checker knows which transaction has written what another one has read.
//!
//! Without a space, they move money into a node that is not always there, and out of it. A body
//! that asserts that it is not there sees one state, too.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::try_join_all;
use futures_util::poll;
use tokio::time::sleep;
use zk_curator::{CuratorFramework, ErrorCode};
use zk_curator_recipes::counter::PromotedToLock;
use zk_curator_recipes::stm::{Error, Stm, Tx};

use super::Scenario;
use super::support::calling::Caller;
use crate::checkers::{Serializable, Violation};
use crate::history::{Name, Transact, Values};
use crate::{Client, Failure};

const BANK: &str = "/bank";
const LOCK: &str = "/locks/bank";
/// Nodes without a space. The reserve, if it exists, has this much of the money.
const TILL: &str = "/till";
const RESERVE: i64 = 100;
const ACCOUNTS: [&str; 3] = ["a", "b", "c"];
/// The sum of all accounts. The first transaction opens an account with it.
const TOTAL: i64 = 1_000;
/// The number of transactions in a round.
const ACTS: usize = 4;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "stm",
    "transactions over many nodes: one order for all, and no body sees two states",
    &["transactions"],
    |sim| {
        sim.workload(work)
            .checker(Serializable::default())
            .operator(["/locks/bank/*"])
            .leaves(["/bank", "/bank/a", "/bank/b", "/bank/c", "/bank/_receipts"])
            .leaves(["/locks", LOCK, TILL, "/till/a", "/till/b", "/till/reserve"])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let bank = Bank::of(&client, &zk);
    let till = Till { client: client.clone(), zk: zk.clone(), stm: Stm::loose(&zk) };
    let mut rng = client.rng();
    while client.next_round().is_some() {
        for _ in 0..ACTS {
            sleep(client.moment(Duration::from_millis(20))).await;
            let act = Act::any(&mut rng);
            bank.transact(act, &mut rng).await;
            if rng.bool() {
                client.maybe_cancel(till.transact(&mut rng)).await;
            }
        }
    }
    client.faults_are_over().await;
    // An attempt may fail: by its deadline, or because the holder of the lock is gone, and its
    // session has not expired yet.
    for act in [Act::Move, Act::Read { confirmed: true }] {
        while !bank.transact(act, &mut rng).await {
            sleep(client.moment(Duration::from_millis(100))).await;
        }
    }
    while !till.transact(&mut rng).await {
        sleep(client.moment(Duration::from_millis(100))).await;
    }
    Ok(())
}

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Read {
        confirmed: bool,
    },
    /// Writes one account with its balance, having read all.
    Touch,
    /// Moves money from one account to another.
    Move,
    /// Opens an account with money of another one.
    Open,
    /// Deletes an account, and moves its money to another one.
    Close,
    /// Deletes an account and creates it again, with less money.
    Replace,
    /// Creates an account that exists, which fails.
    Again,
    /// Gives up for what it has read.
    GiveUp,
}

impl Act {
    fn any(rng: &mut Rng) -> Self {
        match rng.u8(..14) {
            12 => Self::Again,
            13 => Self::GiveUp,
            0 | 1 => Self::Read { confirmed: rng.bool() },
            2 | 3 => Self::Open,
            4 | 5 => Self::Close,
            6 => Self::Replace,
            7 | 8 => Self::Touch,
            _ => Self::Move,
        }
    }
}

struct Bank {
    client: Client,
    caller: Caller,
    zk: CuratorFramework,
    stm: Stm,
}

impl Bank {
    fn of(client: &Client, zk: &CuratorFramework) -> Self {
        let (stm, caller) = (Stm::space(zk, BANK), Caller::new(client, zk, BANK));
        Self { client: client.clone(), caller, zk: zk.clone(), stm }
    }

    /// Runs a transaction. Returns `false` if it has failed, and had no effect.
    async fn transact(&self, act: Act, rng: &mut Rng) -> bool {
        let txn = self.client.unique();
        let (session, status) = (self.zk.session(), self.zk.status());
        let mut transaction = self.stm.transaction();
        if rng.bool() {
            transaction = transaction.prefetch(ACCOUNTS[..rng.usize(1..=3)].iter().map(path));
        }
        if rng.u8(..4) == 0 {
            let lock = PromotedToLock::new(LOCK, Duration::from_secs(5));
            transaction = transaction.retries(rng.u32(..3)).then_lock(lock);
        }
        if act == (Act::Read { confirmed: true }) {
            transaction = transaction.linearizable();
        }
        // The state that refuses a transaction is the newest one too.
        let confirmed = matches!(act, Act::Read { confirmed: true } | Act::Again | Act::GiveUp);
        self.client.record(Transact::Begun { txn, confirmed });
        let body = |tx: Tx| {
            let (client, rng) = (self.client.clone(), rng.fork());
            async move { Body { tx, client, rng, txn }.run(act).await }
        };
        let run = transaction.run(body);
        let run = async {
            match run.await.map(drop) {
                Err(Error::Exists { .. } | Error::Aborted(_)) => Ok(()),
                ended => ended,
            }
        };
        let outcome = self.caller.outcome(session, status, run, Error::may_have_applied).await;
        let has_failed = matches!(outcome, Err(None));
        self.client.record(match outcome {
            Ok(_) => Transact::Committed { txn },
            Err(None) => Transact::Failed { txn },
            Err(Some(why)) => Transact::Unknown { txn, why },
        });
        !has_failed
    }
}

/// An account: its balance, and the number of its value.
type Account = (i64, u64);

/// One attempt.
struct Body {
    tx: Tx,
    client: Client,
    rng: Rng,
    txn: u64,
}

impl Body {
    async fn run(mut self, act: Act) -> Result<(), Error> {
        let before = self.read().await?;
        let total: i64 = before.values().flatten().map(|(balance, _)| balance).sum();
        let is_new = before.values().all(Option::is_none);
        if total != TOTAL && !is_new {
            let broken = format!("a body sees the total {total}: {before:?}");
            self.client.run().fail(Violation::new("opacity", broken, Vec::new()));
        }
        let after = match act {
            Act::Again | Act::GiveUp => BTreeMap::new(),
            _ if is_new => BTreeMap::from([("a", Some(TOTAL))]),
            _ => self.plan(act, &before),
        };
        let mut writes = Values::new();
        for (name, balance) in after {
            writes.push((Name::from(name), self.write(name, balance, act)?));
        }
        let open = before.iter().find(|(_, account)| account.is_some()).map(|(name, _)| *name);
        let reads = before.into_iter();
        let reads =
            reads.map(|(name, account)| (Name::from(name), account.map(|(_, number)| number)));
        let (txn, reads) = (self.txn, reads.collect());
        self.client.record(Transact::Attempted { txn, reads, writes });
        match (act, open) {
            (Act::Again, Some(open)) => self.tx.create(path(&open), ""),
            (Act::Again | Act::GiveUp, _) => Err(Error::abort("enough was read")),
            _ => Ok(()),
        }
    }

    /// Reads all accounts, in one of several ways.
    async fn read(&mut self) -> Result<BTreeMap<&'static str, Option<Account>>, Error> {
        let mut accounts = BTreeMap::from(ACCOUNTS.map(|name| (name, None)));
        let mut names = ACCOUNTS.to_vec();
        match self.rng.u8(..4) {
            3 => {
                let all =
                    together(&self.client, &self.tx, ACCOUNTS.map(|name| path(&name))).await?;
                let all = all.iter().map(|data| data.as_deref().and_then(decode));
                accounts.extend(ACCOUNTS.into_iter().zip(all));
                return Ok(accounts);
            }
            0 => {
                let all = self.tx.get_all(ACCOUNTS.iter().map(path)).await?;
                accounts.extend(
                    ACCOUNTS
                        .into_iter()
                        .zip(all.iter().map(|data| data.as_deref().and_then(decode))),
                );
                return Ok(accounts);
            }
            1 => {
                let listed = self.tx.children(BANK).await?.unwrap_or_default();
                names.retain(|name| listed.iter().any(|listed| listed == name));
                if names.len() != listed.len() {
                    let broken = format!("a body sees other children: {listed:?}");
                    self.client.run().fail(Violation::new("opacity", broken, Vec::new()));
                }
            }
            _ => self.rng.shuffle(&mut names),
        }
        let is_listed = names.len() < ACCOUNTS.len();
        for name in names {
            if self.rng.bool() {
                sleep(self.client.moment(Duration::from_millis(3))).await;
            }
            let data = self.tx.get(path(&name)).await?;
            if is_listed && data.is_none() {
                let broken = format!("a body finds no {name}, which it has seen in the list");
                self.client.run().fail(Violation::new("opacity", broken, Vec::new()));
            }
            accounts.insert(name, data.as_deref().and_then(decode));
        }
        Ok(accounts)
    }

    /// Returns the new balances, if the accounts allow the act.
    fn plan(
        &mut self,
        act: Act,
        before: &BTreeMap<&'static str, Option<Account>>,
    ) -> BTreeMap<&'static str, Option<i64>> {
        let mut open: Vec<(&'static str, i64)> = before
            .iter()
            .filter_map(|(name, account)| account.map(|(balance, _)| (*name, balance)))
            .collect();
        self.rng.shuffle(&mut open);
        let closed = before.iter().find(|(_, account)| account.is_none()).map(|(name, _)| *name);
        let amount = self.rng.i64(1..10);
        match (act, &open[..], closed) {
            (Act::Touch, [(name, balance), ..], _) => BTreeMap::from([(*name, Some(*balance))]),
            (Act::Move, [(from, a), (to, b), ..], _) => {
                BTreeMap::from([(*from, Some(a - amount)), (*to, Some(b + amount))])
            }
            (Act::Open, [(from, a), ..], Some(new)) => {
                BTreeMap::from([(*from, Some(a - amount)), (new, Some(amount))])
            }
            (Act::Close, [(gone, a), (to, b), ..], _) => {
                BTreeMap::from([(*gone, None), (*to, Some(a + b))])
            }
            (Act::Replace, [(again, a), (to, b), ..], _) => {
                BTreeMap::from([(*again, Some(a - amount)), (*to, Some(b + amount))])
            }
            _ => BTreeMap::new(),
        }
    }

    /// Writes an account, and returns the number of the value.
    fn write(&mut self, name: &str, balance: Option<i64>, act: Act) -> Result<Option<u64>, Error> {
        let path = path(&name);
        let Some(balance) = balance else {
            self.tx.delete(path)?;
            return Ok(None);
        };
        let number = self.client.unique();
        let data = format!("{balance} {number}");
        if act == Act::Replace && self.rng.bool() {
            self.tx.delete(path.as_str())?;
        }
        self.tx.put(path, data.as_str())?;
        Ok(Some(number))
    }
}

/// Reads nodes in requests that are under way at the same time. Their responses are not taken in
/// the order in which they arrive.
async fn together<const N: usize>(
    client: &Client,
    tx: &Tx,
    paths: [String; N],
) -> Result<Vec<Option<Bytes>>, Error> {
    let reads = paths.map(|path| async move {
        let sometimes =
            |most| if client.rng().bool() { client.moment(most) } else { Duration::ZERO };
        sleep(sometimes(Duration::from_millis(5))).await;
        let mut read = pin!(tx.get(path));
        if let Poll::Ready(read) = poll!(&mut read) {
            return read;
        }
        sleep(sometimes(Duration::from_millis(10))).await;
        read.await
    });
    try_join_all(reads).await
}

/// Two nodes that stay, and a reserve that comes and goes, without a space.
struct Till {
    client: Client,
    zk: CuratorFramework,
    stm: Stm,
}

impl Till {
    /// Runs a transaction. Returns `false` if it has failed, or may have.
    async fn transact(&self, rng: &mut Rng) -> bool {
        let opened = async {
            self.zk.create(TILL).idempotent().or_set_data().await?;
            let opening = self.zk.transaction();
            let opening = opening.create(format!("{TILL}/a"), TOTAL.to_string());
            opening.create(format!("{TILL}/b"), "0").commit().await.map(drop)
        };
        match opened.await {
            Err(error) if error.code() != Some(ErrorCode::NodeExists) => return false,
            _ => {}
        }
        let expects_none = rng.bool();
        let run = self.stm.transaction().run(|tx| {
            let mut rng = rng.fork();
            async move { self.body(&tx, &mut rng, expects_none).await }
        });
        // The reserve is there, or is not.
        matches!(run.await, Ok(_) | Err(Error::Exists { .. } | Error::Unprotected { .. }))
    }

    async fn body(&self, tx: &Tx, rng: &mut Rng, expects_none: bool) -> Result<(), Error> {
        let path = |name| format!("{TILL}/{name}");
        if expects_none {
            tx.assert_absent(path("reserve"))?;
        }
        let paths = [path("reserve"), path("a"), path("b")];
        let seen = together(&self.client, tx, paths).await?;
        let balances: Vec<_> = seen.iter().map(|data| data.as_deref().and_then(balance)).collect();
        let total: i64 = balances.iter().flatten().sum();
        if total != TOTAL {
            let broken = format!("a body sees the total {total} without a space: {balances:?}");
            self.client.run().fail(Violation::new("opacity", broken, Vec::new()));
        }
        let [reserve, Some(a), Some(b)] = balances[..] else { return Ok(()) };
        let amount = rng.i64(1..10);
        let (a, b) = match (rng.u8(..6), reserve) {
            (0..3, None) => {
                tx.put(path("reserve"), RESERVE.to_string().as_str())?;
                (a - RESERVE, b)
            }
            (0..3, Some(reserve)) => {
                tx.delete(path("reserve"))?;
                (a, b + reserve)
            }
            (3, _) => return Ok(()),
            _ => (a - amount, b + amount),
        };
        tx.put(path("a"), a.to_string().as_str())?;
        tx.put(path("b"), b.to_string().as_str())
    }
}

fn balance(data: &[u8]) -> Option<i64> {
    std::str::from_utf8(data).ok()?.parse().ok()
}

fn path(name: &&str) -> String {
    format!("{BANK}/{name}")
}

fn decode(data: &[u8]) -> Option<Account> {
    let (balance, number) = std::str::from_utf8(data).ok()?.split_once(' ')?;
    Some((balance.parse().ok()?, number.parse().ok()?))
}
