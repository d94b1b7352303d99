//! Hash tables whose iteration order is arbitrary but the same in every run.
//!
//! ZooKeeper lists children unordered, and a recipe that forgets to sort must not pass by accident.
//! A simulation must replay exactly. A hasher with a fixed seed gives both.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
pub(crate) type Set<T> = HashSet<T, BuildHasherDefault<DefaultHasher>>;
