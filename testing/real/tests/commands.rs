//! The programs `zk-real` and `zk-chaos`, and the page of the guide on real ensembles.

mod guide;
mod zk_chaos;
mod zk_real;
mod zk_real_ensemble;
