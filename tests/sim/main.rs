//! The simulation of the recipes, and what keeps it repeatable.

mod recipes;
mod replay;
mod sources;
