//! The commands: a file for each.

mod acl;
mod backup;
mod barrier;
mod break_lock;
mod completions;
mod config;
mod counter;
mod cp;
mod create;
mod cron;
mod ctx;
mod deadlocks;
mod diff;
mod discover;
#[cfg(unix)]
mod discover_register;
mod doctor;
mod du;
mod edit;
#[cfg(unix)]
mod elect;
mod ephemerals;
mod exists;
mod export;
mod find;
mod flw;
mod get;
mod grep;
mod group;
#[cfg(unix)]
mod group_join;
mod history;
mod inspect;
mod jobs;
#[cfg(unix)]
mod lock;
mod ls;
mod man;
#[cfg(unix)]
mod membership;
mod metrics;
mod mv;
mod queue;
mod quota;
mod reconfig;
mod restore;
mod revoke;
mod rm;
#[cfg(unix)]
mod rolling_restart;
#[cfg(unix)]
mod semaphore;
#[cfg(feature = "serve")]
mod serve;
mod servers;
mod sessions;
mod set;
#[cfg(feature = "shell")]
mod shell;
mod stat;
mod status;
#[cfg(feature = "tui")]
mod top;
mod tree;
mod txn;
mod wait;
mod watch;
mod watches;
#[cfg(feature = "web")]
mod web;
mod why;

use clap::Subcommand;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::CommandOutput;

/// Commands that the help shows together.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    pub(crate) title: &'static str,
    /// The variants of [`Command`].
    variants: &'static [&'static str],
}

impl CommandGroup {
    /// Returns the names of the commands: `rolling-restart` for the variant `RollingRestart`.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.variants.iter().map(|variant| {
            let mut name = String::new();
            for letter in variant.chars() {
                if letter.is_ascii_uppercase() && !name.is_empty() {
                    name.push('-');
                }
                name.push(letter.to_ascii_lowercase());
            }
            name
        })
    }
}

macro_rules! commands {
    ($(
        $title:literal {$(
            $(#[doc = $about:literal])*
            $([$feature:literal])? $name:ident($args:path)
                $(has $kind:ident)? $(or $alias:literal)? $(if $platform:meta)?,
        )*}
    )*) => {
        /// A command, with its arguments.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(
                $(#[doc = $about])*
                $(#[cfg(feature = $feature)])?
                $(#[command($kind)])?
                $(#[command(visible_alias = $alias)])?
                $(#[cfg($platform)])?
                $name($args),
            )*)*
        }

        /// The commands in groups. The help of `zkc` has an example of the first one of each group.
        pub(crate) const GROUPS: &[CommandGroup] = &[$(
            CommandGroup {
                title: $title,
                variants: &[$(
                    $(#[cfg(feature = $feature)])?
                    $(#[cfg($platform)])?
                    stringify!($name),
                )*],
            },
        )*];

        impl Command {
            /// Runs the command.
            pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
                match self {
                    $($(
                        $(#[cfg(feature = $feature)])?
                        $(#[cfg($platform)])?
                        Self::$name(args) => Box::pin(args.run(app)).await,
                    )*)*
                }
            }
        }
    };
}

commands! {
    "Read" {
        /// Show the data of a node
        Get(get::Get),
        /// List the children of a node
        Ls(ls::Ls),
        /// Show the metadata of a node
        Stat(stat::StatCommand),
        /// Check that a node exists, by the exit code
        Exists(exists::Exists),
        /// Show a subtree
        Tree(tree::TreeCommand),
        /// Find nodes by name, kind, age and size
        Find(find::Find),
        /// Find nodes by their data
        Grep(grep::Grep),
        /// Show the sizes of subtrees
        Du(du::Du),
        /// Wait for a state of a node
        Wait(wait::WaitCommand),
        /// Print changes of nodes as they happen
        Watch(watch::WatchCommand),
    }
    "Write" {
        /// Change the data of a node
        Set(set::Set),
        /// Create a node
        Create(create::Create),
        /// Delete nodes
        Rm(rm::Rm),
        /// Change the data of a node in an editor
        Edit(edit::EditCommand),
        /// Show or change the access control list of a node
        Acl(acl::AclCommand),
        /// Show or change the quota of a subtree
        Quota(quota::Quota),
        /// Run a transaction
        Txn(txn::Txn),
    }
    "Back up, copy and compare" {
        /// Write a subtree to a backup file
        Backup(backup::BackupCommand),
        /// Write the nodes of a backup file to the servers
        Restore(restore::RestoreCommand) or "import",
        /// Show a subtree as one document, or write it to directories
        Export(export::Export),
        /// Compare two subtrees or backup files
        Diff(diff::DiffCommand),
        /// Copy a node, or a subtree
        Cp(cp::Cp),
        /// Move a node, or a subtree
        Mv(mv::Mv),
    }
    "Locks and leaders" {
        /// Run a command while holding a lock
        Lock(lock::LockCommand) if unix,
        /// Run a command while holding a permit of a semaphore
        Semaphore(semaphore::Semaphore) if unix,
        /// Run a command while leading
        Elect(elect::Elect) if unix,
        /// Set, remove and wait for barriers
        Barrier(barrier::BarrierVerb) has subcommand,
        /// Ask the holder of a lock to release it
        Revoke(revoke::Revoke),
        /// Take a lock away from its holder
        Break(break_lock::Break),
    }
    "Who holds what" {
        /// Explain who holds a lock or another recipe, who waits, and why
        Why(why::WhyCommand),
        /// Find recipes, with their holders and waiters
        Inspect(inspect::Inspect),
        /// Find sessions that wait for each other
        Deadlocks(deadlocks::DeadlocksCommand),
    }
    "Queues, jobs and schedules" {
        /// Look into queues, put and take items
        Queue(queue::QueueVerb) has subcommand,
        /// Look into jobs, submit and change them
        Jobs(jobs::JobsVerb) has subcommand,
        /// Run a command once per period on one of several hosts
        Cron(cron::CronVerb) has subcommand,
    }
    "Counters, configuration, groups and services" {
        /// Read and change counters
        Counter(counter::CounterCommand),
        /// Read and change configuration stores
        Config(config::ConfigVerb) has subcommand,
        /// List, join and follow groups
        Group(group::GroupVerb) has subcommand,
        /// Look into service discovery, and register instances
        Discover(discover::Discover),
    }
    "Servers" {
        /// Show the state of the servers; fails if the ensemble is degraded
        Status(status::Status),
        /// Follow the servers, clients, sessions and watches on a screen
        ["tui"] Top(top::Top),
        /// Show the members of the ensemble
        Servers(servers::Servers),
        /// Show the sessions, with their clients
        Sessions(sessions::SessionsCommand),
        /// Show the ephemeral nodes, with their sessions
        Ephemerals(ephemerals::EphemeralsCommand),
        /// Count the watches
        Watches(watches::WatchesCommand),
        /// Ask servers a four-letter word
        Flw(flw::Flw),
        /// Show the metrics of all servers
        Metrics(metrics::Metrics),
        /// Show or change the members of the ensemble
        Reconfig(reconfig::MembershipChange) has subcommand,
        /// Look for faults and risks
        Doctor(doctor::Doctor),
        /// Restart all servers, one at a time, the leader last
        RollingRestart(rolling_restart::RollingRestart) if unix,
    }
    "The past of a server" {
        /// Find out who deleted a node, and get it back, from logs and snapshots
        History(history::HistoryVerb) has subcommand,
    }
    "Shell, contexts and manual" {
        /// Run many commands in one session
        ["shell"] Shell(shell::ShellCommand),
        /// Show, choose and change contexts
        Ctx(ctx::Ctx),
        /// Run a ZooKeeper server for tests and development
        ["serve"] Serve(serve::Serve),
        /// Serve an explorer of the nodes for browsers, with a REST interface
        ["web"] Web(web::Web),
        /// Print the completions for a shell
        Completions(completions::Completions),
        /// Print the manual page
        Man(man::Man),
    }
}
