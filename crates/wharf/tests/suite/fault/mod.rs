//! `fault` and `trace`: by hand, and around a device under the whole path.

mod by_hand;
mod flow;
mod lasting;
mod path;
mod rig;
mod spec;
