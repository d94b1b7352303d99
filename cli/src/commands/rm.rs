use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use zk_curator::op::fan_out;
use zk_curator::{CuratorFramework, Error, ErrorKind, Stat};
use zk_curator_ops::holders::deletion_permission;
use zk_curator_ops::pattern::NamePattern;
use zk_curator_ops::tree::walk;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::node::NodeSnapshot;
use crate::output::{CommandOutput, Out, Rows, text, time};
use crate::path;
use crate::progress::ProgressLine;
use crate::unreadable::{self, NameUnreadable, UnreadableNodes};

/// The deletions that are requested at a time.
const AT_ONCE: usize = 256;

/// The arguments of `zkc rm`.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Nodes
    #[arg(required = true, value_parser = path::parse)]
    paths: Vec<String>,
    /// Also delete what is below the nodes
    #[arg(short, long)]
    recursive: bool,
    /// Delete only children whose names match this pattern, such as `tmp-*`
    #[arg(long, value_name = "GLOB")]
    matching: Option<NamePattern>,
    /// Delete only children that were not changed for this time. A child that changes before it is
    /// deleted is kept
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// Delete only children without children
    #[arg(long)]
    empty: bool,
    /// Only if the node has this version
    #[arg(long, value_name = "N", conflicts_with_all = ["recursive", "matching", "older_than", "empty"])]
    version: Option<i32>,
    /// Succeed if a node does not exist
    #[arg(short, long)]
    force: bool,
    /// Print what would be deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// A node to delete.
#[derive(Debug, Clone)]
struct RemovalTarget {
    path: String,
    /// The node that the options selected by its age: this one, or one above it.
    selected: Option<Arc<Selected>>,
}

/// A node as it was when it was selected.
#[derive(Debug)]
struct Selected {
    path: String,
    version: i32,
    czxid: i64,
}

impl RemovalTarget {
    fn depth(&self) -> usize {
        self.path.matches('/').count()
    }
}

/// The nodes to delete.
#[derive(Debug, Default)]
struct Targets {
    /// Children come before their parents.
    nodes: Vec<RemovalTarget>,
    /// The nodes whose children are not known.
    unreadable: UnreadableNodes,
    /// The children of which it is not known if the options select them.
    undecided: UnreadableNodes,
}

impl Rm {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        for path in &self.paths {
            path::refuse_system(zk, path)?;
        }
        let mut targets = Targets::default();
        for path in &self.paths {
            self.select(zk, path, &mut targets).await?;
        }
        let number = targets.nodes.len();
        let mut kept = KeptNodes { is_single: number <= 1, reasons: Vec::new() };
        if self.dry_run {
            let rows = self.plan(zk, targets.nodes, &mut kept).await?;
            let answer = kept.complete(app.out(), rows);
            targets.unreadable.extend(targets.undecided);
            return Ok(targets.unreadable.complete(app.out(), answer));
        }
        if number > 1 {
            app.agree(&format!("delete {number} nodes?")).await?;
        }
        let zk = app.zk_to_change().await?;
        let progress = ProgressLine::start(app.out(), "delete", u64::try_from(number).ok());
        let unreadable = &targets.unreadable;
        let mut deletion = TreeDeletion { zk, rm: &self, unreadable, deleted: 0, kept, progress };
        let outcome = deletion.run(&targets.nodes).await;
        let TreeDeletion { deleted, kept, progress, .. } = deletion;
        drop(progress);
        let answer = kept.complete(app.out(), CommandOutput::nothing());
        let answer = targets.undecided.complete(app.out(), answer);
        match outcome {
            Ok(()) if kept.reasons.is_empty() => Ok(answer),
            Ok(()) => {
                let text = format!("deleted {deleted} nodes, not {}", kept.reasons.len());
                Err(CommandFailure::new(Exit::PARTLY, text))
            }
            Err(failure) if deleted == 0 => Err(self.explained(zk, failure).await),
            Err(failure) => {
                let text = format!("deleted {deleted} of {number} nodes; then {failure}");
                Err(CommandFailure::new(Exit::PARTLY, text))
            }
        }
    }

    /// Names the missing permission, if that is the failure.
    async fn explained(&self, zk: &CuratorFramework, failure: CommandFailure) -> CommandFailure {
        let path = self.paths.first().filter(|_| failure.exit() == Exit::NO_PERMISSION);
        let why = match path {
            Some(path) => deletion_permission(zk, path).await.ok().flatten(),
            None => None,
        };
        match why {
            Some(why) => failure.hint(why.to_string()),
            None => failure,
        }
    }

    /// Returns `true` if the options select children of the nodes.
    const fn selects_children(&self) -> bool {
        self.matching.is_some() || self.older_than.is_some() || self.empty
    }

    /// Returns `true` if the nodes below the selected ones are deleted too. Nodes that were
    /// selected because they have no children may get some.
    const fn deletes_below(&self) -> bool {
        self.recursive && !self.empty
    }

    /// Adds the nodes to delete at or below a path, deepest first.
    async fn select(
        &self,
        zk: &CuratorFramework,
        path: &str,
        targets: &mut Targets,
    ) -> Result<(), CommandFailure> {
        let roots = if self.selects_children() {
            self.selected(zk, path, &mut targets.undecided).await?
        } else {
            vec![RemovalTarget { path: path.to_owned(), selected: None }]
        };
        if !self.deletes_below() {
            targets.nodes.extend(roots);
            return Ok(());
        }
        for root in roots {
            match walk::list(zk, &root.path, usize::MAX, |_| true).await {
                Ok(nodes) => {
                    targets.unreadable.extend(walk::hidden(&nodes));
                    let paths = nodes.into_iter().rev().map(|node| node.path);
                    let selected = &root.selected;
                    targets.nodes.extend(
                        paths.map(|path| RemovalTarget { path, selected: selected.clone() }),
                    );
                }
                // A selected node was deleted meanwhile.
                Err(error)
                    if error.kind() == ErrorKind::NoNode
                        && (self.force || self.selects_children()) => {}
                // It may be deleted if it has no children.
                Err(error)
                    if matches!(error.kind(), ErrorKind::NoAuth | ErrorKind::ResponseTooLarge) =>
                {
                    targets.unreadable.extend([(root.path.clone(), error.kind())]);
                    targets.nodes.push(root);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the children that the options select.
    async fn selected(
        &self,
        zk: &CuratorFramework,
        path: &str,
        undecided: &mut UnreadableNodes,
    ) -> Result<Vec<RemovalTarget>, CommandFailure> {
        let mut names = zk.children(path).await?;
        names.retain(|name| self.matching.as_ref().is_none_or(|glob| glob.is_match(name)));
        names.sort_unstable();
        let children: Vec<_> = names.iter().map(|name| path::join(path, name)).collect();
        let stats = fan_out(AT_ONCE, children.iter().map(|child| zk.exists(child))).await;
        let now = time::now_ms();
        let is_selected = |stat: &Stat| {
            let age = time::since(stat.mtime, now);
            self.older_than.is_none_or(|least| age >= least)
                && (!self.empty || stat.num_children == 0)
        };
        let mut selected = Vec::new();
        for (path, stat) in children.into_iter().zip(stats) {
            match NodeSnapshot::of(stat)? {
                NodeSnapshot::Present(stat) if is_selected(&stat) => {
                    let Stat { version, czxid, .. } = stat;
                    let as_it_is = || Arc::new(Selected { path: path.clone(), version, czxid });
                    let by_age = self.older_than.map(|_| as_it_is());
                    selected.push(RemovalTarget { path, selected: by_age });
                }
                // Its name is all that matters.
                NodeSnapshot::Hidden if self.older_than.is_none() && !self.empty => {
                    selected.push(RemovalTarget { path, selected: None });
                }
                NodeSnapshot::Hidden => undecided.extend([(path, ErrorKind::NoAuth)]),
                NodeSnapshot::Present(_) | NodeSnapshot::Missing => {}
            }
        }
        Ok(selected)
    }

    /// Returns the nodes that would be deleted, and fails as the deletion would.
    async fn plan(
        &self,
        zk: &CuratorFramework,
        targets: Vec<RemovalTarget>,
        kept: &mut KeptNodes,
    ) -> Result<Rows, CommandFailure> {
        let mut rows = Rows::new(const { &[text("path")] }).plain();
        // Otherwise the nodes were just listed, and their descendants are deleted before them.
        let mut stats = Vec::new();
        if !self.deletes_below() {
            stats = fan_out(AT_ONCE, targets.iter().map(|node| zk.exists(&node.path))).await;
        }
        let mut stats = stats.into_iter();
        for RemovalTarget { path, .. } in targets {
            let conflict = |text| CommandFailure::new(Exit::CONFLICT, text);
            match stats.next().map(NodeSnapshot::of).transpose()? {
                Some(NodeSnapshot::Missing) if self.force || self.selects_children() => {}
                Some(NodeSnapshot::Missing) => return Err(CommandFailure::no_node(&path)),
                Some(NodeSnapshot::Present(stat))
                    if self
                        .version
                        .is_some_and(|wanted| wanted != -1 && wanted != stat.version) =>
                {
                    let text = format!("other version: {path} has version {}", stat.version);
                    return Err(conflict(text));
                }
                Some(NodeSnapshot::Present(stat)) if stat.num_children > 0 => {
                    kept.add(not_empty(&path, kept.is_single && !self.recursive))?;
                }
                Some(NodeSnapshot::Present(_) | NodeSnapshot::Hidden) | None => {
                    rows.push(vec![path.into()]);
                }
            }
        }
        Ok(rows)
    }
}

/// The nodes that are not deleted.
#[derive(Debug)]
struct KeptNodes {
    /// There is only one node to delete: its failure is that of the command.
    is_single: bool,
    reasons: Vec<String>,
}

impl KeptNodes {
    fn add(&mut self, why: CommandFailure) -> Result<(), CommandFailure> {
        if self.is_single {
            return Err(why);
        }
        self.reasons.push(why.to_string());
        Ok(())
    }

    /// Names the nodes on stderr. Returns the answer, which is partial if there are any.
    fn complete(&self, out: &Out, answer: impl Into<CommandOutput>) -> CommandOutput {
        unreadable::name(out, "kept: ", self.reasons.iter().map(String::as_str));
        let answer = answer.into();
        if self.reasons.is_empty() { answer } else { answer.with_exit(Exit::PARTLY) }
    }
}

/// A deletion that is under way.
struct TreeDeletion<'a> {
    zk: &'a CuratorFramework,
    rm: &'a Rm,
    /// The nodes below which others were not selected, because they are not known.
    unreadable: &'a UnreadableNodes,
    deleted: usize,
    kept: KeptNodes,
    progress: ProgressLine,
}

impl TreeDeletion<'_> {
    /// Deletes the nodes, each level after the one below it. Fails with the first failure of a
    /// chunk, whose other outcomes are noted too.
    async fn run(&mut self, targets: &[RemovalTarget]) -> Result<(), CommandFailure> {
        for level in targets.chunk_by(|a, b| a.depth() == b.depth()) {
            for targets in level.chunks(AT_ONCE) {
                let replaced = self.replaced(targets).await?;
                let is_replaced = |target: &&RemovalTarget| {
                    let selected = target.selected.as_ref();
                    selected.is_some_and(|selected| replaced.contains(&*selected.path))
                };
                let (others, same): (Vec<_>, Vec<_>) = targets.iter().partition(is_replaced);
                let outcomes =
                    fan_out(AT_ONCE, same.iter().map(|target| self.delete(target))).await;
                // All of them are over: a failure of one says nothing about those after it.
                let mut noted = Ok(());
                for target in others {
                    let kept = self.kept.add(changed(&target.path));
                    noted = noted.and(kept);
                }
                for (target, outcome) in same.into_iter().zip(outcomes) {
                    let outcome = self.note(target, outcome);
                    noted = noted.and(outcome);
                }
                self.progress.add(targets.len());
                noted?;
            }
        }
        Ok(())
    }

    /// Finds the selected nodes whose paths other nodes have by now: their versions may be the
    /// same, because versions begin again.
    async fn replaced(
        &self,
        targets: &[RemovalTarget],
    ) -> Result<BTreeSet<String>, CommandFailure> {
        let selected = targets.iter().filter_map(|target| target.selected.as_deref());
        let selected: BTreeMap<&str, i64> =
            selected.map(|selected| (&*selected.path, selected.czxid)).collect();
        let stats = fan_out(AT_ONCE, selected.keys().map(|path| self.zk.exists(*path))).await;
        let mut replaced = BTreeSet::new();
        for ((path, czxid), stat) in selected.into_iter().zip(stats) {
            if stat?.is_some_and(|stat| stat.czxid != czxid) {
                replaced.insert(path.to_owned());
            }
        }
        Ok(replaced)
    }

    async fn delete(&self, target: &RemovalTarget) -> Result<(), Error> {
        match &target.selected {
            // A node below the selected one, which is deleted only if that has not changed.
            Some(selected) if selected.path != target.path => {
                let check = self.zk.transaction().check(&selected.path, selected.version);
                check.delete(&target.path).commit().await.map(drop)
            }
            // It is repeated after a lost response, and finds no node if the first one was applied.
            Some(selected) => {
                self.zk.delete(&target.path).version(selected.version).quietly().await
            }
            None => match self.rm.version {
                Some(version) => self.zk.delete(&target.path).version(version).await,
                None => self.zk.delete(&target.path).await,
            },
        }
    }

    /// Counts a node that was deleted, or notes why it was not.
    fn note(
        &mut self,
        target: &RemovalTarget,
        outcome: Result<(), Error>,
    ) -> Result<(), CommandFailure> {
        let Err(error) = outcome else {
            self.deleted += 1;
            return Ok(());
        };
        if error.may_have_applied() {
            return Err(error.into());
        }
        let path = &target.path;
        let may_be_gone = self.rm.selects_children() || self.rm.recursive || self.rm.force;
        match error.clone().of_operation("delete").kind() {
            ErrorKind::NoNode if may_be_gone => Ok(()),
            ErrorKind::BadVersion if target.selected.is_some() => self.kept.add(changed(path)),
            ErrorKind::NotEmpty => {
                let failure = not_empty(path, self.kept.is_single && !self.rm.recursive);
                self.kept.add(match self.unreadable.why(path) {
                    Some(why) => failure.hint(format!("its children are not known: {why}")),
                    None => failure,
                })
            }
            ErrorKind::NoAuth => self
                .kept
                .add(CommandFailure::new(Exit::NO_PERMISSION, format!("no permission: {path}"))),
            _ => Err(error.into()),
        }
    }
}

fn not_empty(path: &str, with_hint: bool) -> CommandFailure {
    let failure = CommandFailure::new(Exit::CONFLICT, format!("not empty: {path}"));
    if with_hint { failure.hint("-r also deletes the nodes below it") } else { failure }
}

fn changed(path: &str) -> CommandFailure {
    CommandFailure::new(Exit::CONFLICT, format!("changed since it was read: {path}"))
}
