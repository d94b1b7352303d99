//! [`InterProcessMutex`] on every kind of server.

use std::sync::Arc;

use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_recipes::lock::{Error, InterProcessMutex, MutexGuard};
use zk_curator_tests::{Contention, Server, on_each_server, start};

const LOCK: &str = "/locks/orders";

on_each_server! {
    sessions_and_tasks_get_the_lock_once_in_order
}
on_each_server! {
    restarted: a_waiter_survives_a_crash_and_restart_of_the_server
}
on_each_server! {
    tcp: a_holder_whose_process_dies_is_succeeded_and_fenced_off
}

/// A task that acquires the lock, once it is in the queue.
async fn waiter(zk: &CuratorFramework) -> tokio::task::JoinHandle<Result<MutexGuard, Error>> {
    let before = zk.children(LOCK).await.unwrap().len();
    let lock = InterProcessMutex::new(zk, LOCK);
    let task = tokio::spawn(async move { lock.acquire().await });
    loop {
        let queue = zk.children(LOCK).watched().await.unwrap();
        if queue.value.0.len() > before {
            return task;
        }
        queue.watch.await.unwrap();
    }
}

async fn sessions_and_tasks_get_the_lock_once_in_order(server: Server) {
    const SESSIONS: usize = 8;
    const TASKS: usize = 200;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(server.connected().await);
    }
    Contention::start(&sessions, LOCK, TASKS).ends_in_order().await;
    assert_eq!(sessions[0].children(LOCK).await.unwrap(), [""; 0]);
}

async fn a_waiter_survives_a_crash_and_restart_of_the_server(mut server: Server) {
    let zk = server.connected().await;
    let holder = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
    let waiting = waiter(&zk).await;
    server.stop().await;
    zk.states().until(|status| status.state == ConnectionState::Suspended).await.unwrap();
    server.restart().await;
    let status = zk.wait_connected().await.unwrap();
    assert_eq!(status.state, ConnectionState::Reconnected { same_session: true });
    assert!(!waiting.is_finished());
    let token = holder.fencing_token();
    holder.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.fencing_token() > token);
    guard.release().await.unwrap();
    zk.close().await.unwrap();
}

async fn a_holder_whose_process_dies_is_succeeded_and_fenced_off(server: Server) {
    // The runtime of the client that dies: at its shutdown the connection ends without closing the
    // session.
    let mortal =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = Arc::new(server);
    let zk = server.connected().await;
    zk.create("/guarded").await.unwrap();
    let (old, token) = {
        let server = Arc::clone(&server);
        let task = mortal.spawn(async move {
            let zk = start(server.mortal()).await;
            let guard = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
            let held = (guard.ownership().clone(), guard.fencing_token());
            // It is not dropped.
            std::mem::forget((guard, zk));
            held
        });
        task.await.unwrap()
    };
    let waiting = waiter(&zk).await;
    mortal.shutdown_background();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.fencing_token() > token);
    guard.fenced().set_data("/guarded", "new").commit().await.unwrap();
    assert_eq!(zk.exists(old.path()).await.unwrap(), None);
    let late = zk
        .transaction()
        .check(old.path(), None)
        .set_data("/guarded", "late")
        .commit()
        .await
        .unwrap_err();
    assert!(matches!(late.kind(), ErrorKind::TransactionFailed { index: 0, .. }), "{late}");
    guard.release().await.unwrap();
    zk.close().await.unwrap();
}
