//! `delegate!`, `delegate_qdisc!`: the methods that a wrapper leaves to the device or discipline inside.
//! A box leaves all.

use parts::{Device, Notify, Qdisc, RxDevice, TxDevice};

/// Names that [`delegate!`](crate::delegate) and [`delegate_qdisc!`](crate::delegate_qdisc) expand to.
pub mod parts {
    pub use crate::device::{
        Completions, Device, DeviceError, ModeReason, Notify, Passes, RxDevice, Signals, Transmitted,
        TxDevice, TxInfo,
    };
    pub use crate::pool::Cache;
    pub use crate::qdisc::{Backpressure, Limit, Qdisc, QdiscContext, Rate, WhenFull};
    pub use wharf_mem::{Batch, Frame, Region};
}

/// Forwards methods of [`Notify`], [`Device`],
/// [`TxDevice`] and [`RxDevice`] to a field, inside the `impl` of a
/// wrapper: `delegate!(inner: name, attach, visit)`.
///
/// A wrapper's `impl` bears `#[deny(clippy::missing_trait_methods)]`: a method that it neither writes nor
/// names here would be the default's answer in place of the inner device's.
#[macro_export]
macro_rules! delegate {
    (*self: $($method:ident),+) => { $($crate::delegate!(@ (self, **self) $method);)+ };
    ($inner:ident: $($method:ident),+ $(,)?) => { $($crate::delegate!(@ (self, self.$inner) $method);)+ };
    (@ ($self:ident, $to:expr) mut $of:ident::$method:ident($($name:ident: $kind:ty),*) $(-> $returned:ty)?) => {
        #[inline]
        fn $method(&mut $self, $($name: $kind),*) $(-> $returned)? {
            $crate::delegation::parts::$of::$method(&mut $to, $($name),*)
        }
    };
    (@ ($self:ident, $to:expr) $of:ident::$method:ident($($name:ident: $kind:ty),*) $(-> $returned:ty)?) => {
        #[inline]
        fn $method(&$self, $($name: $kind),*) $(-> $returned)? {
            $crate::delegation::parts::$of::$method(&$to, $($name),*)
        }
    };
    (@ $to:tt arm) => { $crate::delegate!(@ $to mut Notify::arm() -> bool); };
    (@ $to:tt disarm) => { $crate::delegate!(@ $to mut Notify::disarm()); };
    (@ $to:tt wait_fd) => { $crate::delegate!(@ $to Notify::wait_fd() -> Option<std::os::fd::RawFd>); };
    (@ $to:tt name) => { $crate::delegate!(@ $to Device::name() -> String); };
    (@ $to:tt mode) => { $crate::delegate!(@ $to Device::mode() -> Option<&'static str>); };
    (@ $to:tt mode_reason) => { $crate::delegate!(@ $to Device::mode_reason() -> Option<$crate::delegation::parts::ModeReason>); };
    (@ $to:tt facts) => { $crate::delegate!(@ $to Device::facts(see: &mut dyn FnMut(&'static str, Option<u32>, u64))); };
    (@ $to:tt set_line) => { $crate::delegate!(@ $to mut Device::set_line(is_up: bool) -> bool); };
    (@ $to:tt link) => { $crate::delegate!(@ $to mut Device::link() -> Option<Result<(), $crate::delegation::parts::DeviceError>>); };
    (@ $to:tt attach) => {
        $crate::delegate!(@ $to mut Device::attach(region: std::sync::Arc<$crate::delegation::parts::Region>) -> Result<(), $crate::delegation::parts::DeviceError>);
    };
    (@ $to:tt visit) => { $crate::delegate!(@ $to Device::visit(see: &mut dyn FnMut(&$crate::delegation::parts::Frame))); };
    (@ $to:tt signals) => { $crate::delegate!(@ $to mut Notify::signals() -> Option<$crate::delegation::parts::Signals>); };
    (@ $to:tt close) => { $crate::delegate!(@ $to mut Device::close() -> Result<(), $crate::delegation::parts::DeviceError>); };
    (@ $to:tt info) => { $crate::delegate!(@ $to TxDevice::info() -> $crate::delegation::parts::TxInfo); };
    (@ $to:tt transmit) => {
        $crate::delegate!(@ $to mut TxDevice::transmit(batch: &mut $crate::delegation::parts::Batch, more: bool) -> $crate::delegation::parts::Transmitted);
    };
    (@ $to:tt flush) => { $crate::delegate!(@ $to mut TxDevice::flush() -> bool); };
    (@ $to:tt reap) => {
        $crate::delegate!(@ $to mut TxDevice::reap(budget: usize, urgent: bool, into: &mut $crate::delegation::parts::Completions) -> Result<(), $crate::delegation::parts::DeviceError>);
    };
    (@ $to:tt outstanding) => { $crate::delegate!(@ $to TxDevice::outstanding() -> usize); };
    (@ $to:tt next_completion_ns) => { $crate::delegate!(@ $to TxDevice::next_completion_ns() -> Option<u64>); };
    (@ $to:tt set_patience) => { $crate::delegate!(@ $to mut TxDevice::set_patience(patience: Option<std::time::Duration>)); };
    (@ $to:tt receive) => {
        $crate::delegate!(@ $to mut RxDevice::receive(cache: &mut $crate::delegation::parts::Cache, to: &mut $crate::delegation::parts::Batch, budget: usize) -> Result<usize, $crate::delegation::parts::DeviceError>);
    };
    (@ $to:tt ended) => { $crate::delegate!(@ $to RxDevice::ended() -> bool); };
    (@ $to:tt reclaim) => { $crate::delegate!(@ $to mut RxDevice::reclaim(to: &mut $crate::delegation::parts::Batch) -> usize); };
    (@ $to:tt drops) => { $crate::delegate!(@ $to mut RxDevice::drops(see: &mut dyn FnMut(&'static str, u64))); };
    (@ $to:tt queue_packets) => { $crate::delegate!(@ $to mut RxDevice::queue_packets(see: &mut dyn FnMut(u32, u64))); };
    (@ $to:tt thin) => { $crate::delegate!(@ $to mut RxDevice::thin(passes: Option<&$crate::delegation::parts::Passes>) -> bool); };
    (@ $to:tt holds_back) => { $crate::delegate!(@ $to RxDevice::holds_back() -> bool); };
    (@ $to:tt next_arrival_ns) => { $crate::delegate!(@ $to RxDevice::next_arrival_ns() -> Option<u64>); };
}

/// Forwards methods of [`Qdisc`] to a field, as [`delegate!`](crate::delegate) does those of a device.
#[doc(hidden)]
#[macro_export]
macro_rules! delegate_qdisc {
    (*self: $($method:ident),+ $(,)?) => { $($crate::delegate_qdisc!(@ (self, **self) $method);)+ };
    ($inner:ident: $($method:ident),+ $(,)?) => { $($crate::delegate_qdisc!(@ (self, self.$inner) $method);)+ };
    (@ $to:tt name) => { $crate::delegate!(@ $to Qdisc::name() -> &'static str); };
    (@ $to:tt reserve) => { $crate::delegate!(@ $to mut Qdisc::reserve(frames: usize)); };
    (@ $to:tt storage) => { $crate::delegate!(@ $to Qdisc::storage() -> usize); };
    (@ $to:tt enqueue) => {
        $crate::delegate!(@ $to mut Qdisc::enqueue(cx: &mut $crate::delegation::parts::QdiscContext<'_>, from: &mut $crate::delegation::parts::Batch));
    };
    (@ $to:tt dequeue) => {
        $crate::delegate!(@ $to mut Qdisc::dequeue(cx: &mut $crate::delegation::parts::QdiscContext<'_>, to: &mut $crate::delegation::parts::Batch, limit: $crate::delegation::parts::Limit));
    };
    (@ $to:tt len) => { $crate::delegate!(@ $to Qdisc::len() -> usize); };
    (@ $to:tt is_empty) => { $crate::delegate!(@ $to Qdisc::is_empty() -> bool); };
    (@ $to:tt backpressure) => { $crate::delegate!(@ $to Qdisc::backpressure() -> $crate::delegation::parts::Backpressure); };
    (@ $to:tt when_full) => { $crate::delegate!(@ $to Qdisc::when_full() -> $crate::delegation::parts::WhenFull); };
    (@ $to:tt bound_memory) => { $crate::delegate!(@ $to mut Qdisc::bound_memory(region: &$crate::delegation::parts::Region)); };
    (@ $to:tt trim) => { $crate::delegate!(@ $to mut Qdisc::trim(cx: &mut $crate::delegation::parts::QdiscContext<'_>)); };
    (@ $to:tt purge) => { $crate::delegate!(@ $to mut Qdisc::purge(to: &mut $crate::delegation::parts::Batch)); };
    (@ $to:tt can_bypass) => { $crate::delegate!(@ $to Qdisc::can_bypass() -> bool); };
    (@ $to:tt uses_bands) => { $crate::delegate!(@ $to Qdisc::uses_bands() -> bool); };
    (@ $to:tt dscp_bands) => { $crate::delegate!(@ $to Qdisc::dscp_bands() -> [u8; 64]); };
    (@ $to:tt drops_expired) => { $crate::delegate!(@ $to Qdisc::drops_expired() -> bool); };
    (@ $to:tt next_event_ns) => { $crate::delegate!(@ $to Qdisc::next_event_ns() -> Option<u64>); };
    (@ $to:tt visit) => { $crate::delegate!(@ $to Qdisc::visit(see: &mut dyn FnMut(&$crate::delegation::parts::Frame))); };
    (@ $to:tt set_rate) => { $crate::delegate!(@ $to mut Qdisc::set_rate(rate: $crate::delegation::parts::Rate) -> bool); };
    (@ $to:tt stats) => { $crate::delegate!(@ $to Qdisc::stats(see: &mut dyn FnMut(&'static str, u64))); };
}

#[deny(clippy::missing_trait_methods)]
impl<D: Notify + ?Sized> Notify for Box<D> {
    delegate!(*self: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device + ?Sized> Device for Box<D> {
    delegate!(*self: name, mode, mode_reason, facts, set_line, link, attach, visit, close);
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice + ?Sized> TxDevice for Box<D> {
    delegate!(*self: info, transmit, flush, reap, outstanding, next_completion_ns, set_patience);
}

#[deny(clippy::missing_trait_methods)]
impl<D: RxDevice + ?Sized> RxDevice for Box<D> {
    delegate!(*self: receive, ended, reclaim, drops, queue_packets, next_arrival_ns, holds_back, thin);
}

#[deny(clippy::missing_trait_methods)]
impl<Q: Qdisc + ?Sized> Qdisc for Box<Q> {
    delegate_qdisc!(*self: name, reserve, storage, enqueue, dequeue, len, is_empty, backpressure, when_full, bound_memory, trim);
    delegate_qdisc!(*self: purge, can_bypass, uses_bands, dscp_bands, drops_expired, next_event_ns, visit, set_rate, stats);
}
