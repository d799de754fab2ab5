//! `udp:HOST:PORT` against plain sockets, over loopback.

#[path = "../common/mod.rs"]
mod common;
mod paths;
mod receiving;
mod rig;
mod sending;
