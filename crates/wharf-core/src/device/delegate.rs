//! `delegate!`: the methods that a wrapper leaves to the device inside. A boxed device is the device itself.

use parts::{Device, Notify, RxDevice, TxDevice};

/// Names that [`delegate!`](crate::delegate) expands to.
#[doc(hidden)]
pub mod parts {
    pub use crate::device::{
        Completions, Device, DeviceError, ModeReason, Notify, Passes, RxDevice, Signals, Transmitted,
        TxDevice, TxInfo,
    };
    pub use crate::pool::Cache;
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
            $crate::device::parts::$of::$method(&mut $to, $($name),*)
        }
    };
    (@ ($self:ident, $to:expr) $of:ident::$method:ident($($name:ident: $kind:ty),*) $(-> $returned:ty)?) => {
        #[inline]
        fn $method(&$self, $($name: $kind),*) $(-> $returned)? {
            $crate::device::parts::$of::$method(&$to, $($name),*)
        }
    };
    (@ $to:tt arm) => { $crate::delegate!(@ $to mut Notify::arm() -> bool); };
    (@ $to:tt disarm) => { $crate::delegate!(@ $to mut Notify::disarm()); };
    (@ $to:tt wait_fd) => { $crate::delegate!(@ $to Notify::wait_fd() -> Option<std::os::fd::RawFd>); };
    (@ $to:tt name) => { $crate::delegate!(@ $to Device::name() -> String); };
    (@ $to:tt mode) => { $crate::delegate!(@ $to Device::mode() -> Option<&'static str>); };
    (@ $to:tt mode_reason) => { $crate::delegate!(@ $to Device::mode_reason() -> Option<$crate::device::parts::ModeReason>); };
    (@ $to:tt link) => { $crate::delegate!(@ $to mut Device::link() -> Option<Result<(), $crate::device::parts::DeviceError>>); };
    (@ $to:tt attach) => {
        $crate::delegate!(@ $to mut Device::attach(region: std::sync::Arc<$crate::device::parts::Region>) -> Result<(), $crate::device::parts::DeviceError>);
    };
    (@ $to:tt visit) => { $crate::delegate!(@ $to Device::visit(see: &mut dyn FnMut(&$crate::device::parts::Frame))); };
    (@ $to:tt signals) => { $crate::delegate!(@ $to mut Notify::signals() -> Option<$crate::device::parts::Signals>); };
    (@ $to:tt close) => { $crate::delegate!(@ $to mut Device::close() -> Result<(), $crate::device::parts::DeviceError>); };
    (@ $to:tt info) => { $crate::delegate!(@ $to TxDevice::info() -> $crate::device::parts::TxInfo); };
    (@ $to:tt transmit) => {
        $crate::delegate!(@ $to mut TxDevice::transmit(batch: &mut $crate::device::parts::Batch, more: bool) -> $crate::device::parts::Transmitted);
    };
    (@ $to:tt flush) => { $crate::delegate!(@ $to mut TxDevice::flush() -> bool); };
    (@ $to:tt reap) => {
        $crate::delegate!(@ $to mut TxDevice::reap(budget: usize, urgent: bool, into: &mut $crate::device::parts::Completions) -> Result<(), $crate::device::parts::DeviceError>);
    };
    (@ $to:tt outstanding) => { $crate::delegate!(@ $to TxDevice::outstanding() -> usize); };
    (@ $to:tt next_completion_ns) => { $crate::delegate!(@ $to TxDevice::next_completion_ns() -> Option<u64>); };
    (@ $to:tt set_patience) => { $crate::delegate!(@ $to mut TxDevice::set_patience(patience: Option<std::time::Duration>)); };
    (@ $to:tt receive) => {
        $crate::delegate!(@ $to mut RxDevice::receive(cache: &mut $crate::device::parts::Cache, to: &mut $crate::device::parts::Batch, budget: usize) -> Result<usize, $crate::device::parts::DeviceError>);
    };
    (@ $to:tt ended) => { $crate::delegate!(@ $to RxDevice::ended() -> bool); };
    (@ $to:tt reclaim) => { $crate::delegate!(@ $to mut RxDevice::reclaim(to: &mut $crate::device::parts::Batch) -> usize); };
    (@ $to:tt drops) => { $crate::delegate!(@ $to mut RxDevice::drops(see: &mut dyn FnMut(&'static str, u64))); };
    (@ $to:tt queue_packets) => { $crate::delegate!(@ $to mut RxDevice::queue_packets(see: &mut dyn FnMut(u32, u64))); };
    (@ $to:tt thin) => { $crate::delegate!(@ $to mut RxDevice::thin(passes: Option<&$crate::device::parts::Passes>) -> bool); };
    (@ $to:tt holds_back) => { $crate::delegate!(@ $to RxDevice::holds_back() -> bool); };
    (@ $to:tt next_arrival_ns) => { $crate::delegate!(@ $to RxDevice::next_arrival_ns() -> Option<u64>); };
}

#[deny(clippy::missing_trait_methods)]
impl<D: Notify + ?Sized> Notify for Box<D> {
    delegate!(*self: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device + ?Sized> Device for Box<D> {
    delegate!(*self: name, mode, mode_reason, link, attach, visit, close);
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice + ?Sized> TxDevice for Box<D> {
    delegate!(*self: info, transmit, flush, reap, outstanding, next_completion_ns, set_patience);
}

#[deny(clippy::missing_trait_methods)]
impl<D: RxDevice + ?Sized> RxDevice for Box<D> {
    delegate!(*self: receive, ended, reclaim, drops, queue_packets, next_arrival_ns, holds_back, thin);
}
