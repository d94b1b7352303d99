//! Directories of Apache ZooKeeper.

mod dumps;
mod incident;
mod replayed;
mod workload;
mod writing;
