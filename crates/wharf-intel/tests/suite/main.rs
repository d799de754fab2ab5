//! `e1000` and `igb` on a model of an adapter, in memory: one that keeps the rules, and one that lies.

mod chance;
mod edges;
mod lies;
mod model;
mod traffic;
