//! Atomics and cells: std's, or loom's in a model.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
pub(crate) use std::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;
#[cfg(not(loom))]
pub(crate) use wharf_sys::fence::{heavy, light};

#[cfg(loom)]
pub(crate) use loom::thread::yield_now;

/// loom has no asymmetric fence: both sides are full ones in a model.
#[cfg(loom)]
pub(crate) fn light() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) fn heavy() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}
