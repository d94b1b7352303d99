//! Tests on files that are written here, byte by byte from the formats.

mod budget;
mod check;
mod damage;
mod files;
mod follow;
mod index;
mod log;
mod model;
mod records;
mod replay;
mod snapshot;
mod undelete;
mod writer;
