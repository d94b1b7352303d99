//! Transactions that read many nodes while others write them without a pause.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::Notify;
use tokio::time::Instant;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::stm::{Error, Stm, Transaction, Tx};
use zk_curator_testing::TestServer;
use zk_curator_tests::{
    assert_matches, builder, join_all, recorded, session_id, simulated_each_on, simulated_on, start,
};

use crate::cache_cost::distant;
use crate::stm::{SPACE, value};

const ACCOUNTS: usize = 200;
const BALANCE: i64 = 100;
const TOTAL: i64 = BALANCE * ACCOUNTS as i64;
const WRITERS: usize = 8;
/// The time that a request of the reader takes to the server. The clients that move money are
/// nearer: several of their transfers are committed between a read and a commit of the reader.
const READER: Duration = Duration::from_millis(3);

fn account(n: usize) -> String {
    format!("{SPACE}/{n}")
}

fn paths() -> impl Iterator<Item = String> {
    (0..ACCOUNTS).map(account)
}

/// A bank whose clients move money until they are stopped.
struct Bank {
    server: TestServer,
    clients: Vec<CuratorFramework>,
    reader: CuratorFramework,
}

async fn bank() -> Bank {
    let server = TestServer::in_memory().await;
    let mut clients = Vec::new();
    for _ in 0..WRITERS {
        clients.push(distant(&server).await);
    }
    let open = |tx: Tx| async move { paths().try_for_each(|path| tx.put(path, &BALANCE)) };
    Stm::space(&clients[0], SPACE).atomically(open).await.unwrap();
    let connector = server.connector();
    connector.set_latency(0, READER..=READER, 0);
    let reader = start(builder(&server).connector(Arc::new(connector))).await;
    Bank { server, clients, reader }
}

impl Bank {
    /// Runs a future while all clients move money, and have begun. Returns its output, and the
    /// number of transfers.
    async fn under_transfers<T>(&self, run: impl Future<Output = T>) -> (T, usize) {
        let is_over = Cell::new(false);
        let transfers = Cell::new(0);
        let begun = Notify::new();
        let transfer = |(seed, zk): (usize, &CuratorFramework)| {
            let stm = Stm::space(zk, SPACE);
            let (is_over, transfers, begun) = (&is_over, &transfers, &begun);
            async move {
                let mut rng = fastrand::Rng::with_seed(seed as u64);
                while !is_over.get() {
                    let from = rng.usize(..ACCOUNTS);
                    let to = (from + rng.usize(1..ACCOUNTS)) % ACCOUNTS;
                    let (from, to) = (&account(from), &account(to));
                    let transaction = stm.transaction().prefetch([from, to]);
                    let done = transaction.run(|tx| async move {
                        let (a, b) = (value(&tx, from).await?, value(&tx, to).await?);
                        tx.put(from, &(a - 1))?;
                        tx.put(to, &(b + 1))
                    });
                    done.await.unwrap();
                    transfers.set(transfers.get() + 1);
                    if transfers.get() == WRITERS {
                        begun.notify_one();
                    }
                }
            }
        };
        let run = async {
            begun.notified().await;
            let output = run.await;
            is_over.set(true);
            output
        };
        let (output, _) = join(run, join_all(self.clients.iter().enumerate().map(transfer))).await;
        (output, transfers.get())
    }

    fn stm(&self, is_loose: bool) -> Stm {
        if is_loose { Stm::loose(&self.reader) } else { Stm::space(&self.reader, SPACE) }
    }
}

/// How a body reads all accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Prefetch,
    Together,
    List,
    /// One after the other.
    Turns,
}

impl By {
    fn options(self, transaction: Transaction) -> Transaction {
        let transaction = transaction.linearizable();
        if self == Self::Prefetch { transaction.prefetch(paths()) } else { transaction }
    }
}

async fn total(tx: Tx, by: By) -> Result<i64, Error> {
    let mut all: Vec<String> = paths().collect();
    if by == By::List {
        let names = tx.children(SPACE).await?.unwrap_or_default();
        all = names.into_iter().map(|name| format!("{SPACE}/{name}")).collect();
    }
    if matches!(by, By::Together | By::List) {
        tx.get_all(all.clone()).await?;
    }
    let mut total = 0;
    for path in all {
        total += value(&tx, &path).await?;
    }
    Ok(total)
}

#[test]
fn confirmed_read_of_many_nodes_does_not_starve() {
    let ways = [
        (By::Prefetch, false, 1),
        (By::Together, false, 1),
        (By::Together, true, 1),
        (By::List, false, 2),
        // One more node for each attempt, in the worst case.
        (By::Turns, false, 1 + ACCOUNTS as u32),
        (By::Turns, true, 1 + ACCOUNTS as u32),
    ];
    simulated_each_on(ways, bank, async |(by, is_loose, most), bank| {
        let transaction = by.options(bank.stm(is_loose).transaction());
        let run = transaction.run(|tx| total(tx, by));
        let (read, transfers) = bank.under_transfers(run).await;
        let read = read.unwrap_or_else(|error| panic!("{by:?}: {error}"));
        println!("{by:?}: {} attempts, {transfers} transfers", read.attempts);
        assert_eq!(read.value, TOTAL, "{by:?}");
        assert!(read.attempts <= most, "{by:?}: {} attempts", read.attempts);
        assert!(transfers > WRITERS);
    });
}

/// The commit of a fenced transaction checks everything that its first attempt has read.
#[test]
fn fenced_read_of_many_nodes_does_not_starve() {
    simulated_each_on([false, true], bank, async |is_loose, bank| {
        let guard = InterProcessMutex::new(&bank.reader, "/lock").acquire().await.unwrap();
        let transaction = bank.stm(is_loose).transaction().fenced_by(guard.ownership());
        let run = transaction.run(|tx| total(tx, By::Together));
        let (read, _) = bank.under_transfers(run).await;
        let read = read.unwrap();
        assert_eq!((read.value, read.attempts), (TOTAL, 2));
        assert!(read.zxid.is_some(), "the fence was not checked");
        // The attempt after the conflict is refused if the node is gone.
        let transaction = bank.stm(is_loose).transaction().fenced_by(guard.ownership());
        let path = guard.path().to_owned();
        let attempts = Cell::new(0);
        let run = transaction.run(|tx| {
            attempts.set(attempts.get() + 1);
            let (bank, path, attempt) = (&bank, &path, attempts.get());
            async move {
                let total = total(tx, By::Together).await?;
                if attempt == 2 {
                    bank.clients[0].delete(path.as_str()).await?;
                }
                Ok(total)
            }
        });
        let (read, _) = bank.under_transfers(run).await;
        assert_matches!(read, Err(Error::Framework(error))
            if error.kind() == ErrorKind::OwnershipLost);
        assert_eq!(attempts.get(), 2);
    });
}

/// The reason of a body that gives up has to be true during the call.
#[test]
fn abort_after_reads_of_many_nodes_does_not_starve() {
    simulated_each_on([false, true], bank, async |is_loose, bank| {
        let attempts = Cell::new(0);
        let run = bank.stm(is_loose).transaction().run(|tx| {
            attempts.set(attempts.get() + 1);
            async move {
                let total = total(tx, By::Together).await?;
                Err::<(), _>(Error::abort(format!("the total is {total}")))
            }
        });
        let (aborted, _) = bank.under_transfers(run).await;
        let expected = format!("the body has aborted the transaction: the total is {TOTAL}");
        assert_eq!(aborted.unwrap_err().to_string(), expected);
        assert_eq!(attempts.get(), 2);
    });
}

#[test]
fn confirmed_read_takes_one_round_trip() {
    simulated_on(bank, async |bank| {
        let (rule, requests) = recorded(&bank.server);
        for by in [By::Prefetch, By::Together] {
            let began = Instant::now();
            let transaction = by.options(bank.stm(false).transaction());
            let read = transaction.run(|tx| total(tx, by)).await.unwrap();
            assert_eq!((read.value, read.attempts, read.zxid), (TOTAL, 1, None));
            assert_eq!(began.elapsed(), 2 * READER);
        }
        drop(rule);
        let sent = requests.lock().unwrap()[&session_id(&bank.reader).get()].clone();
        // The check to which a quorum responds, and the reads.
        assert_eq!(sent, [OpCode::Multi, OpCode::MultiRead].repeat(2));
    });
}

#[test]
fn retries_count_attempts_that_learn_nothing() {
    simulated_on(bank, async |bank| {
        let stm = bank.stm(false);
        let others = Stm::space(&bank.clients[0], SPACE);
        let paths = &paths().take(5).collect::<Vec<_>>();
        let attempts = Cell::new(0);
        // Each attempt reads one node more than the one before it, and finds that all have changed.
        let growing = |tx: Tx| {
            attempts.set(attempts.get() + 1);
            let (attempt, others) = (attempts.get(), &others);
            async move {
                let known = &paths[..attempt.min(paths.len())];
                let mut sum = 0;
                for path in known {
                    sum += value(&tx, path).await?;
                }
                if let Some(next) = paths.get(attempt) {
                    let change = |tx: Tx| async move {
                        paths.iter().try_for_each(|path| tx.put(path.as_str(), &(attempt as i64)))
                    };
                    others.atomically(change).await?;
                    sum += value(&tx, next).await?;
                }
                Ok(sum)
            }
        };
        let done = stm.transaction().retries(0).run(growing).await.unwrap();
        assert_eq!((done.value, done.attempts), (20, 5));
        // A conflict at the commit is counted.
        let conflicting = |tx: Tx| {
            let others = &others;
            async move {
                let balance = value(&tx, &paths[0]).await?;
                others.atomically(|tx| async move { tx.put(&*paths[0], &(balance + 1)) }).await?;
                tx.put(paths[0].as_str(), &0)
            }
        };
        let result = stm.transaction().retries(1).run(conflicting).await;
        assert_matches!(result, Err(Error::Conflict { attempts: 2, .. }));
    });
}

/// Otherwise a node is created and deleted in its place.
#[test]
fn confirmed_absence_is_read_without_a_space() {
    simulated_on(bank, async |bank| {
        let stm = bank.stm(true);
        let (rule, requests) = recorded(&bank.server);
        let body = |tx: Tx| async move {
            tx.assert_absent("/acc/none")?;
            value(&tx, &account(0)).await
        };
        let read = stm.transaction().linearizable().run(body).await.unwrap();
        drop(rule);
        assert_eq!((read.value, read.attempts), (BALANCE, 1));
        let sent = requests.lock().unwrap()[&session_id(&bank.reader).get()].clone();
        // The read of the body, then the missing node, then both in one state.
        let (check, read) = (OpCode::Multi, OpCode::MultiRead);
        assert_eq!(sent, [check, read, read, read]);
        bank.clients[0].create("/acc/none").await.unwrap();
        let refused = stm.transaction().linearizable().run(body).await;
        assert_matches!(refused, Err(Error::Exists { path }) if path == "/acc/none");
    });
}
