//! `virtio-user` over our own `vhost-user`: both sides in one process.

mod holes;
mod hostile_chance;
mod mute;
mod napi;
mod pair;
mod pairs;
mod reconnect;
mod refusal;
mod several;
