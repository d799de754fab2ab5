//! `udp:HOST:PORT` against plain sockets, over loopback.

mod datagrams;
mod groups;
mod kernel;
mod paths;
mod receiving;
mod rig;
mod sending;
