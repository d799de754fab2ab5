//! Tools around devices and paths: one binary, since each links anew.

mod gso;
mod pacing;
mod pauses;
mod trace;
mod traffic;
mod virtio_echo;
