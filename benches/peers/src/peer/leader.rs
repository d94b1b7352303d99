//! The leader leaves, and another participant takes over.

use std::time::Instant;

use futures_util::future::{join, select_all};
use zk_curator::CuratorFramework;
use zk_curator_recipes::leader::{Candidate, LatchState, LeaderLatch};

use super::stage::{Outcome, Result, Samples, Stage};

pub(crate) async fn fail_over(stage: &mut Stage) -> Result<()> {
    let path = stage.below("leader");
    let contenders = stage.contenders().await?;
    let latch = |zk: &CuratorFramework| LeaderLatch::new(zk, &path);
    let mut candidates: Vec<Candidate> = Vec::new();
    for zk in &contenders {
        candidates.push(latch(zk).join());
        // It takes part when its node exists.
        while zk.children(&path).await.map_or(0, |children| children.len()) < candidates.len() {
            tokio::task::yield_now().await;
        }
    }
    candidates[0].await_leadership().await?;
    let mut leader = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut most) = (Samples::new(), 0);
        for _ in 0..operations {
            // Clients that did not lead, and among them the next.
            let left = candidates.remove(leader);
            let began = Instant::now();
            let takes_over = async {
                let all = candidates.iter().map(|candidate| Box::pin(candidate.await_leadership()));
                let (result, index, _) = select_all(all).await;
                latencies.push(began.elapsed());
                result.map(|_| index)
            };
            let (closed, next) = join(left.close(), takes_over).await;
            closed?;
            let next = next?;
            let leads = |candidate: &&Candidate| matches!(candidate.state(), LatchState::Leader(_));
            most = most.max(candidates.iter().filter(leads).count());
            // Enough others are in line: no candidate waits for it.
            candidates.insert(leader, latch(&contenders[leader]).join());
            leader = if next >= leader { next + 1 } else { next };
        }
        let check = format!("max_leaders={most} terms={}", latencies.len());
        Ok(Outcome { operations: latencies.len(), latencies, check })
    };
    stage.run_plain(run).await
}
