//! `udp:HOST:PORT` against plain sockets, over loopback.

mod paths;
mod receiving;
mod rig;
mod sending;
