//! `vhost-user` against drivers of the test's own: one that keeps the rules, both layouts, and many that do
//! not.

mod declined;
mod descriptors;
mod enabling;
mod frames;
mod guest;
mod hostile;
mod hostile_cases;
mod hostile_chance;
mod idle;
mod inflight;
mod long_chains;
mod manners;
mod peer;
mod rig;
mod socket;
mod spread;
