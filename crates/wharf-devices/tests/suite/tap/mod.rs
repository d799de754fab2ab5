//! `tap:` interfaces of the kernel's: each test in a network of its own.

mod endings;
mod lies;
mod opening;
mod polling;
mod stream;
mod traffic;
