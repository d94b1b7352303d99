//! Hash tables whose iteration order is arbitrary but the same in every run.
//!
//! ZooKeeper lists children in no order, and a recipe that forgets to sort must not pass by accident; yet a
//! simulation must replay. A hasher without a random seed gives both.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
pub(crate) type Set<T> = HashSet<T, BuildHasherDefault<DefaultHasher>>;
