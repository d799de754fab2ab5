//! `virtio-user` over our own `vhost-user`: both sides in one process.

#[path = "../common/mod.rs"]
mod common;
mod mute;
mod napi;
mod pair;
mod reconnect;
mod several;
