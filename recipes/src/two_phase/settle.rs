//! The driver of the decision: performs the reads, watches and writes that the pure functions
//! request.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{join, try_join_all};
use tokio::time::Instant;
use tracing::debug;
use zk_curator::internal::sleep_until;
use zk_curator::op::{CheckOp, ChildrenBuilder, CreateOp, DeleteOp, SetDataOp, TransactionOp};
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{
    CreateMode, CuratorFramework, ErrorCode, ErrorKind, EventType, WatchEnded, WatchedEvent,
};

use super::machine::{self, Content, NodeOperation, PartyStep, TransactionNode, Votes};
use super::record::{TransactionRecord, identity};
use super::{DONE, Error, Form, Outcome};
use crate::path::child;
use crate::race::{RACE_ROUNDS, is_race};

/// A transaction in which a party takes part, and its known state.
pub(super) struct PartyTransaction {
    pub(super) zk: CuratorFramework,
    pub(super) path: ZPath,
    pub(super) record: TransactionRecord,
    seen: PartyView,
    /// The sites whose ephemeral votes were there at some time, by index. Unlike [`PartyView`] this
    /// stays true: a vote that is missing afterwards has ended with its session.
    cast: Vec<bool>,
}

/// The known state of a party, and the watches that report when it is outdated.
#[derive(Default)]
struct PartyView {
    decision: Decision,
    /// By site.
    votes: Vec<CastVote>,
    /// On the children, where sites make their nodes themselves.
    children: Option<Watch>,
    /// A vote that was there is gone, and its site with it.
    gone: bool,
}

#[derive(Default)]
enum Decision {
    #[default]
    Unread,
    /// There was none.
    Pending(Watch),
    /// The watch has fired.
    Changed,
}

#[derive(Default)]
struct CastVote {
    there: bool,
    watch: Option<Watch>,
}

/// How a conditional write went.
pub(super) enum ConditionalWrite {
    Done,
    /// Another client was faster, or the outcome is unknown: look.
    Look(zk_curator::Error),
}

impl PartyTransaction {
    /// Reads the transaction; with the decision, if there is one.
    pub(super) async fn read(
        operation: &'static str,
        zk: &CuratorFramework,
        path: &str,
    ) -> Result<(Self, Option<Outcome>), Error> {
        let path = ZPath::for_operation(operation, path)?;
        let watched = match zk.get_data(path.as_str()).undecompressed().watched().await {
            Ok(watched) => watched,
            Err(error) if error.kind() == ErrorKind::NoNode => {
                return Err(Error::Gone { path: path.into() });
            }
            Err(error) => return Err(error.into()),
        };
        let (record, decision) = parse(&path, &watched.value.0)?;
        let mut transaction = Self::new(zk, path, record);
        if decision.is_none() {
            transaction.seen.decision = Decision::Pending(watched.watch);
        }
        Ok((transaction, decision))
    }

    /// A transaction of which nothing has been read.
    pub(super) fn new(zk: &CuratorFramework, path: ZPath, record: TransactionRecord) -> Self {
        Self { zk: zk.uncompressed(), path, record, seen: PartyView::default(), cast: Vec::new() }
    }

    /// The path of the node of a site.
    pub(super) fn site(&self, site: usize) -> String {
        child(&self.path, &self.record.sites[site])
    }

    /// The name of the child that no other transaction has, if this one has an id.
    pub(super) fn identity(&self) -> String {
        child(&self.path, &identity(&self.record.id))
    }

    /// Waits for the decision, and makes it if that is our task: when all votes exist, if we read
    /// them; and from `due` on in any case.
    pub(super) async fn settle(
        &mut self,
        watch_votes: bool,
        due: Instant,
    ) -> Result<Outcome, Error> {
        let form = self.record.form;
        let mut failures = 0;
        let mut unknown = None;
        loop {
            let pressed = Instant::now() >= due || self.seen.gone;
            let looked = self.look(watch_votes || pressed).await;
            let decision = looked.map_err(|error| error.or_unknown(unknown.as_ref()))?;
            let votes = self.votes();
            match machine::next(form, decision, votes, pressed || self.seen.gone) {
                PartyStep::Decided(outcome) => {
                    self.seen = PartyView::default();
                    return Ok(outcome);
                }
                PartyStep::Decide(outcome) => {
                    debug!(path = %self.path, ?outcome, "deciding");
                    let changes = machine::decide(form, self.record.sites.len(), outcome, votes);
                    let written = self.write("decide", &changes).await;
                    match written.map_err(|error| error.or_unknown(unknown.as_ref()))? {
                        ConditionalWrite::Done => {
                            self.seen = PartyView::default();
                            return Ok(outcome);
                        }
                        ConditionalWrite::Look(error) if failures == RACE_ROUNDS => {
                            return Err(error.into());
                        }
                        ConditionalWrite::Look(error) => unknown = Some(error),
                    }
                    failures += 1;
                    self.look_anew().await.map_err(|error| error.or_unknown(unknown.as_ref()))?;
                }
                PartyStep::Wait => tokio::select! {
                    biased;
                    () = poll_fn(|cx| self.seen.poll_changed(cx)) => {}
                    () = sleep_until(due), if !pressed => {
                        self.look_anew().await.map_err(|error| error.or_unknown(unknown.as_ref()))?;
                    }
                },
            }
        }
    }

    /// Forgets the last state, which may be old.
    async fn look_anew(&mut self) -> Result<(), Error> {
        self.seen = PartyView::default();
        Ok(self.zk.sync(self.path.as_str()).await?)
    }

    /// Reads the unknown parts, the votes before the decision.
    pub(super) async fn look(&mut self, votes: bool) -> Result<Option<Outcome>, Error> {
        let mut seen = std::mem::take(&mut self.seen);
        if !votes {
            let decision = self.look_at_decision(&mut seen.decision).await;
            self.seen = seen;
            return decision;
        }
        let PartyView { decision, votes, children, .. } = &mut seen;
        votes.resize_with(self.record.sites.len(), CastVote::default);
        let look = async {
            match self.record.form {
                Form::Ephemeral if children.is_some() => Ok(None),
                Form::Ephemeral => self.list().await.map(Some),
                Form::Symmetric | Form::Coordinated => {
                    self.look_at_votes(votes).await.map(|()| None)
                }
            }
        };
        // In one round trip.
        let (looked, mut decision) = join(look, self.look_at_decision(decision)).await;
        self.seen = seen;
        match looked {
            Ok(Some((children, watch))) => self.saw(&children, watch),
            // A party that finds a decision needs no votes.
            Err(error) if !matches!(decision, Ok(Some(_))) => return Err(error),
            Ok(None) | Err(_) => {}
        }
        let all = self.seen.votes.iter().all(|vote| vote.there);
        if matches!(decision, Ok(None)) && all && self.record.form == Form::Symmetric {
            decision = self.confirm().await;
        }
        decision
    }

    async fn look_at_decision(&self, known: &mut Decision) -> Result<Option<Outcome>, Error> {
        match known {
            Decision::Pending(_) => Ok(None),
            Decision::Changed => {
                *known = Decision::Unread;
                let decision = self.decision(self.zk.get_data(self.path.as_str()).await)?;
                if decision.is_some() {
                    return Ok(decision);
                }
                Box::pin(self.look_at_decision(known)).await
            }
            Decision::Unread => match self.zk.get_data(self.path.as_str()).watched().await {
                Ok(watched) => {
                    let decision = self.decision(Ok(watched.value.0))?;
                    if decision.is_none() {
                        *known = Decision::Pending(watched.watch);
                    }
                    Ok(decision)
                }
                Err(error) => self.decision(Err(error)),
            },
        }
    }

    /// Reads the decision again after all votes exist: a server of the next session might lag
    /// behind the last one.
    async fn confirm(&self) -> Result<Option<Outcome>, Error> {
        self.decision(self.zk.get_data(self.path.as_str()).linearizable().await)
    }

    fn decision(&self, read: zk_curator::Result<Bytes>) -> Result<Option<Outcome>, Error> {
        match read {
            Ok(data) => match parse(&self.path, &data)? {
                (found, decision) if found.id == self.record.id => Ok(decision),
                // Another transaction has begun at the path.
                _ => Err(self.gone()),
            },
            Err(error) if error.kind() == ErrorKind::NoNode => Err(self.gone()),
            Err(error) => Err(error.into()),
        }
    }

    async fn look_at_votes(&self, votes: &mut [CastVote]) -> Result<(), Error> {
        let unknown =
            votes.iter().enumerate().filter(|(_, vote)| !vote.there && vote.watch.is_none());
        let reads = unknown.map(|(site, _)| async move {
            Ok::<_, Error>((site, self.zk.get_data(self.site(site)).watched().await))
        });
        for (site, read) in try_join_all(reads).await? {
            match read {
                Ok(watched) if watched.value.1.version > 0 => votes[site].there = true,
                Ok(watched) => votes[site].watch = Some(watched.watch),
                Err(error) if error.kind() == ErrorKind::NoNode => return Err(self.gone()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The children, sorted, and a watch on them.
    async fn list(&self) -> Result<(Vec<String>, Watch), Error> {
        let list = |children: ChildrenBuilder| async {
            match children.watched().await {
                Ok(listed) => {
                    let mut names = listed.value.0;
                    names.sort_unstable();
                    Ok((names, listed.watch))
                }
                Err(error) if error.kind() == ErrorKind::NoNode => Err(self.gone()),
                Err(error) => Err(Error::from(error)),
            }
        };
        let listed = list(self.zk.children(self.path.as_str())).await?;
        let is_missing =
            |(site, cast): (&String, &bool)| *cast && listed.0.binary_search(site).is_err();
        if !self.record.sites.iter().zip(&self.cast).any(is_missing) {
            return Ok(listed);
        }
        // Unless the server of the next session lags behind the last one.
        list(self.zk.children(self.path.as_str()).linearizable()).await
    }

    /// Returns the existing ephemeral votes, from the sorted names of the children.
    fn saw(&mut self, children: &[String], watch: Watch) {
        self.cast.resize(self.record.sites.len(), false);
        let PartyView { votes, gone, .. } = &mut self.seen;
        for ((vote, cast), site) in votes.iter_mut().zip(&mut self.cast).zip(&self.record.sites) {
            vote.there = children.binary_search(site).is_ok();
            *gone |= *cast && !vote.there;
            *cast |= vote.there;
        }
        self.seen.children = Some(watch);
    }

    fn votes(&self) -> Votes {
        match self.seen.votes.iter().position(|vote| !vote.there) {
            _ if self.seen.votes.is_empty() => Votes::Unseen,
            Some(site) => Votes::Missing(site),
            None => Votes::All,
        }
    }

    /// Writes all of it, or nothing; nothing, too, if this transaction has gone and another one is
    /// at its path.
    pub(super) async fn write(
        &self,
        operation: &'static str,
        changes: &[NodeOperation],
    ) -> Result<ConditionalWrite, Error> {
        let mut transaction = self.zk.transaction().with(CheckOp::new(self.identity()));
        for change in changes {
            transaction = transaction.with(self.operation(change));
        }
        match transaction.commit().await {
            Ok(_) => Ok(ConditionalWrite::Done),
            Err(error)
                if error.may_have_applied()
                    || is_race(&error)
                    || error.code() == Some(ErrorCode::NotEmpty) =>
            {
                Ok(ConditionalWrite::Look(error.of_operation(operation)))
            }
            Err(error) => Err(error.of_operation(operation).into()),
        }
    }

    fn operation(&self, change: &NodeOperation) -> TransactionOp {
        let path = |place| match place {
            TransactionNode::Transaction => self.path.as_str().to_owned(),
            TransactionNode::Site(site) => self.site(site),
        };
        let data = |content| match content {
            Content::Outcome(outcome) => self.record.encode(Some(outcome)),
            Content::Vote(vote) => Bytes::from_static(vote.text()),
            Content::Done => Bytes::from_static(DONE),
        };
        match *change {
            NodeOperation::Check { place, version: Some(version) } => {
                CheckOp::new(path(place)).version(version).into()
            }
            NodeOperation::Check { place, version: None } => CheckOp::new(path(place)).into(),
            NodeOperation::Write { place, content, version: Some(version) } => {
                SetDataOp::new(path(place), data(content)).version(version).into()
            }
            NodeOperation::Write { place, content, version: None } => {
                SetDataOp::new(path(place), data(content)).into()
            }
            NodeOperation::Create { place, content, ephemeral } => {
                let mode = if ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
                CreateOp::new(path(place)).data(data(content)).mode(mode).into()
            }
            NodeOperation::Delete { place } => DeleteOp::new(path(place)).into(),
        }
    }

    /// Reads the decision from an up-to-date server.
    pub(super) async fn decision_now(&self) -> Result<Option<Outcome>, Error> {
        self.confirm().await
    }

    /// Tries something again, at most so often.
    pub(super) const fn rounds() -> std::ops::RangeInclusive<u32> {
        1..=RACE_ROUNDS
    }

    pub(super) fn gone(&self) -> Error {
        Error::Gone { path: self.path.as_str().to_owned() }
    }
}

impl PartyView {
    /// Ready when something of it is no longer true.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut changed = false;
        if let Decision::Pending(watch) = &mut self.decision
            && let Poll::Ready(event) = Pin::new(watch).poll(cx)
        {
            self.decision = if is_write(&event) { Decision::Changed } else { Decision::Unread };
            changed = true;
        }
        for vote in &mut self.votes {
            if let Some(watch) = &mut vote.watch
                && let Poll::Ready(event) = Pin::new(watch).poll(cx)
            {
                vote.watch = None;
                vote.there = is_write(&event);
                changed = true;
            }
        }
        if let Some(watch) = &mut self.children
            && Pin::new(watch).poll(cx).is_ready()
        {
            self.children = None;
            changed = true;
        }
        if changed { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn is_write(event: &Result<WatchedEvent, WatchEnded>) -> bool {
    matches!(event, Ok(event) if event.event_type == EventType::NodeDataChanged)
}

pub(super) fn parse(
    path: &ZPath,
    data: &Bytes,
) -> Result<(TransactionRecord, Option<Outcome>), Error> {
    TransactionRecord::parse(data)
        .ok_or_else(|| Error::NotATransaction { path: path.as_str().to_owned() })
}
