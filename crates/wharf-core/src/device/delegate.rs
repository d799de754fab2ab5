//! `delegate!`: the methods that a wrapper leaves to the device inside. A boxed device is the device itself.

use parts::{Device, Notify, RxDevice, TxDevice};

/// Names that [`delegate!`](crate::delegate) expands to.
#[doc(hidden)]
pub mod parts {
    pub use crate::device::{
        Completions, Device, DeviceError, Fact, ModeReason, Notify, Passes, RxDevice, Signals, Transmitted,
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
    (@ ($self:ident, $to:expr) arm) => {
        #[inline]
        fn arm(&mut $self) -> bool {
            $crate::device::parts::Notify::arm(&mut $to)
        }
    };
    (@ ($self:ident, $to:expr) disarm) => {
        #[inline]
        fn disarm(&mut $self) {
            $crate::device::parts::Notify::disarm(&mut $to);
        }
    };
    (@ ($self:ident, $to:expr) wait_fd) => {
        fn wait_fd(&$self) -> Option<std::os::fd::RawFd> {
            $crate::device::parts::Notify::wait_fd(&$to)
        }
    };
    (@ ($self:ident, $to:expr) name) => {
        fn name(&$self) -> String {
            $crate::device::parts::Device::name(&$to)
        }
    };
    (@ ($self:ident, $to:expr) mode) => {
        fn mode(&$self) -> Option<&'static str> {
            $crate::device::parts::Device::mode(&$to)
        }
    };
    (@ ($self:ident, $to:expr) mode_reason) => {
        fn mode_reason(&$self) -> Option<$crate::device::parts::ModeReason> {
            $crate::device::parts::Device::mode_reason(&$to)
        }
    };
    (@ ($self:ident, $to:expr) facts) => {
        fn facts(&$self, see: &mut dyn FnMut($crate::device::parts::Fact)) {
            $crate::device::parts::Device::facts(&$to, see);
        }
    };
    (@ ($self:ident, $to:expr) set_line) => {
        fn set_line(&mut $self, is_up: bool) -> bool {
            $crate::device::parts::Device::set_line(&mut $to, is_up)
        }
    };
    (@ ($self:ident, $to:expr) link) => {
        fn link(&mut $self) -> Option<Result<(), $crate::device::parts::DeviceError>> {
            $crate::device::parts::Device::link(&mut $to)
        }
    };
    (@ ($self:ident, $to:expr) attach) => {
        fn attach(&mut $self, region: std::sync::Arc<$crate::device::parts::Region>) -> Result<(), $crate::device::parts::DeviceError> {
            $crate::device::parts::Device::attach(&mut $to, region)
        }
    };
    (@ ($self:ident, $to:expr) visit) => {
        fn visit(&$self, see: &mut dyn FnMut(&$crate::device::parts::Frame)) {
            $crate::device::parts::Device::visit(&$to, see);
        }
    };
    (@ ($self:ident, $to:expr) signals) => {
        fn signals(&mut $self) -> Option<$crate::device::parts::Signals> {
            $crate::device::parts::Notify::signals(&mut $to)
        }
    };
    (@ ($self:ident, $to:expr) close) => {
        fn close(&mut $self) -> Result<(), $crate::device::parts::DeviceError> {
            $crate::device::parts::Device::close(&mut $to)
        }
    };
    (@ ($self:ident, $to:expr) info) => {
        fn info(&$self) -> $crate::device::parts::TxInfo {
            $crate::device::parts::TxDevice::info(&$to)
        }
    };
    (@ ($self:ident, $to:expr) transmit) => {
        #[inline]
        fn transmit(&mut $self, batch: &mut $crate::device::parts::Batch, more: bool) -> $crate::device::parts::Transmitted {
            $crate::device::parts::TxDevice::transmit(&mut $to, batch, more)
        }
    };
    (@ ($self:ident, $to:expr) flush) => {
        #[inline]
        fn flush(&mut $self) -> bool {
            $crate::device::parts::TxDevice::flush(&mut $to)
        }
    };
    (@ ($self:ident, $to:expr) reap) => {
        #[inline]
        fn reap(&mut $self, budget: usize, urgent: bool, into: &mut $crate::device::parts::Completions) -> Result<(), $crate::device::parts::DeviceError> {
            $crate::device::parts::TxDevice::reap(&mut $to, budget, urgent, into)
        }
    };
    (@ ($self:ident, $to:expr) outstanding) => {
        fn outstanding(&$self) -> usize {
            $crate::device::parts::TxDevice::outstanding(&$to)
        }
    };
    (@ ($self:ident, $to:expr) next_completion_ns) => {
        fn next_completion_ns(&$self) -> Option<u64> {
            $crate::device::parts::TxDevice::next_completion_ns(&$to)
        }
    };
    (@ ($self:ident, $to:expr) set_patience) => {
        fn set_patience(&mut $self, patience: Option<std::time::Duration>) {
            $crate::device::parts::TxDevice::set_patience(&mut $to, patience)
        }
    };
    (@ ($self:ident, $to:expr) receive) => {
        #[inline]
        fn receive(&mut $self, cache: &mut $crate::device::parts::Cache, to: &mut $crate::device::parts::Batch, budget: usize) -> Result<usize, $crate::device::parts::DeviceError> {
            $crate::device::parts::RxDevice::receive(&mut $to, cache, to, budget)
        }
    };
    (@ ($self:ident, $to:expr) ended) => {
        fn ended(&$self) -> bool {
            $crate::device::parts::RxDevice::ended(&$to)
        }
    };
    (@ ($self:ident, $to:expr) reclaim) => {
        fn reclaim(&mut $self, to: &mut $crate::device::parts::Batch) -> usize {
            $crate::device::parts::RxDevice::reclaim(&mut $to, to)
        }
    };
    (@ ($self:ident, $to:expr) drops) => {
        fn drops(&mut $self, see: &mut dyn FnMut(&'static str, u64)) {
            $crate::device::parts::RxDevice::drops(&mut $to, see);
        }
    };
    (@ ($self:ident, $to:expr) queue_packets) => {
        fn queue_packets(&mut $self, see: &mut dyn FnMut(u32, u64)) {
            $crate::device::parts::RxDevice::queue_packets(&mut $to, see);
        }
    };
    (@ ($self:ident, $to:expr) thin) => {
        fn thin(&mut $self, passes: Option<&$crate::device::parts::Passes>) -> bool {
            $crate::device::parts::RxDevice::thin(&mut $to, passes)
        }
    };
    (@ ($self:ident, $to:expr) holds_back) => {
        fn holds_back(&$self) -> bool {
            $crate::device::parts::RxDevice::holds_back(&$to)
        }
    };
    (@ ($self:ident, $to:expr) next_arrival_ns) => {
        fn next_arrival_ns(&$self) -> Option<u64> {
            $crate::device::parts::RxDevice::next_arrival_ns(&$to)
        }
    };
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
