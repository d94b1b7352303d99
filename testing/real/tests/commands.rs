//! The programs `zk-real` and `zk-chaos`.

mod zk_chaos;
mod zk_real;
