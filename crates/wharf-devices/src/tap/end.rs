//! `End`: the file, and the interface at its other end, in whichever namespace it is by now.

use super::TapOptions;
use crate::host::HostClock;
use crate::iface::{LookTimer, State, io_fault};
use crate::link::{Health, Link, down};
use std::io;
use std::os::fd::AsFd;
use wharf_core::device::DeviceError;
use wharf_core::host::Clock;
use wharf_sys::errno::{E2BIG, EBADFD, EBUSY, EINVAL, EIO, ENETDOWN, ENODEV, ENOENT, ENOTTY, EPERM};
use wharf_sys::interface::{Interface, InterfaceSocket};
use wharf_sys::netlink::Netlink;
use wharf_sys::tap::{Offloads, Tap};

/// An MTU that no kernel sets for a TAP.
const MTU_BYTES_MAX: u32 = 65521;
/// Least time between two looks at the MTU in another namespace because of frames that are too long: each
/// takes a thread.
const MTU_LOOK_NS: u64 = 100_000_000;

#[derive(Debug)]
pub(super) struct End {
    /// `None` once closed.
    tap: Option<Tap>,
    pub(super) health: Health,
    interface: Interface,
    /// A socket of the namespace that the interface was opened in.
    asker: InterfaceSocket,
    /// True if the interface has been moved to another namespace.
    is_elsewhere: bool,
    /// Earliest time of the next look at its MTU there.
    mtu_look_at_ns: u64,
    netlink: Option<Netlink>,
    /// Drop count of the kernel at the beginning, and at the last look.
    drops_before: u64,
    drops: u64,
    /// True if the end of receiving has been reported.
    over: bool,
}

impl End {
    /// Makes interface `name`, or takes an existing one. Returns it with the offloads that the kernel leaves
    /// to the receiver. `tells_all` is set if it reports the drops of all queues.
    pub(super) fn open(
        name: &str, options: TapOptions, tells_all: bool,
    ) -> Result<(Self, Offloads), DeviceError> {
        let device = format!("tap:{}", name.escape_debug());
        let fault = |what: &str| io_fault(&device, what);
        if !Tap::is_name(name) {
            let what = "no name of an interface: 1 to 15 bytes without spaces, /, : and %".into();
            return Err(wharf_core::options::OptionError { subject: device, what }.into());
        }
        let tap = Tap::open(name, options.multi_queue).map_err(|error| {
            let what = refusal(&error, name, options.multi_queue);
            fault(&what)(error)
        })?;
        let asker = InterfaceSocket::open().map_err(fault("cannot ask for the interface"))?;
        let set_up = fault("cannot set up the interface");
        let interface = Interface::find(asker.as_fd(), name).map_err(set_up.clone())?;
        let offloads = prepare(&tap, &interface, &asker, options, &fault)?;
        let link = Link::find(device.clone(), name, asker.as_fd())?;
        // The kernel counts the drops of all queues together.
        let tells = tells_all || !tap.is_multi_queue();
        let netlink = if tells { Netlink::open().ok() } else { None };
        let drops_before = netlink.as_ref().and_then(|netlink| netlink.transmit_drops(&interface).ok());
        let end = Self {
            tap: Some(tap),
            health: Health::new(link),
            interface,
            asker,
            is_elsewhere: false,
            mtu_look_at_ns: 0,
            netlink,
            drops_before: drops_before.unwrap_or(0),
            drops: 0,
            over: false,
        };
        Ok((end, offloads))
    }

    #[inline]
    pub(super) fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref()
    }

    pub(super) fn is_over(&self) -> bool {
        self.over || self.tap.is_none()
    }

    /// Looks at the interface: it may be down or up, have another MTU, or have been moved, renamed or
    /// removed.
    #[cold]
    pub(super) fn look(&mut self) {
        let Some(tap) = &self.tap else { return };
        let name = match tap.name() {
            Err(error) => return self.health.change(State::Gone, "the interface is gone", error),
            Ok((name, _)) => name,
        };
        let here = self.interface.state(self.asker.as_fd());
        self.is_elsewhere |= here.is_err_and(|error| error.raw_os_error() == Some(ENODEV));
        if !self.is_elsewhere {
            return self.health.look(self.asker.as_fd());
        }
        // The socket is not kept: it would keep that namespace alive.
        let there =
            tap.interface_socket().and_then(|asker| Ok((Interface::find(asker.as_fd(), &name)?, asker)));
        match there {
            Ok((interface, asker)) => {
                self.health.follow(interface, &name);
                self.health.look(asker.as_fd());
            }
            // The interface exists and cannot be queried: the last known state stays.
            Err(_) => self.health.come_back(),
        }
    }

    /// Returns true if the interface has been moved to another namespace: a look at it then takes a thread.
    #[inline]
    pub(super) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Returns the number of calls until the next look without a cause; in another namespace a look takes a
    /// thread.
    pub(super) fn look_every(&self) -> u32 {
        if self.is_elsewhere { 4096 } else { LookTimer::EVERY }
    }

    /// Returns the state of the interface after an error of the file other than lack of room.
    #[cold]
    pub(super) fn state_after(&mut self, error: &io::Error) -> State {
        let again = |errno| io::Error::from_raw_os_error(errno);
        match (error.raw_os_error(), &self.tap) {
            (Some(EIO), Some(_)) => {
                // It is switched off as it is removed, or moved.
                self.look();
                if self.health.state() == State::Up {
                    let name = self.tap.as_ref().and_then(|tap| tap.name().ok()).unwrap_or_default().0;
                    self.health.change(State::Down, &down(&name), again(ENETDOWN));
                }
            }
            (Some(EBADFD), _) => self.health.change(State::Gone, "the interface is gone", again(EBADFD)),
            _ => self.look(),
        }
        self.health.state()
    }

    /// Looks at the MTU, since it may have changed. Returns true if it has.
    #[cold]
    pub(super) fn look_at_mtu(&mut self) {
        if self.is_elsewhere {
            let now_ns = HostClock.now_ns();
            if now_ns < self.mtu_look_at_ns {
                return;
            }
            self.mtu_look_at_ns = now_ns + MTU_LOOK_NS;
        }
        self.look();
    }

    /// Handles a read error: it is the end, or it is reported.
    #[cold]
    pub(super) fn fault_of_reading(&mut self, source: io::Error) -> DeviceError {
        let device = self.health.device().to_string();
        if self.state_after(&source) == State::Gone {
            self.over = true;
            return DeviceError::Gone { device, what: "the interface is gone".into(), source };
        }
        io_fault(&device, "cannot receive")(source)
    }

    /// Returns the frames that the kernel dropped since the device was opened because the ring was full;
    /// `None` if another queue reports them.
    pub(super) fn kernel_drops(&mut self) -> Option<u64> {
        let netlink = self.netlink.as_ref()?;
        let drops = netlink.transmit_drops(&self.interface).or_else(|_| {
            // It has been moved to another namespace, or is gone: then the last count stays.
            let tap = self.tap.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let interface = Interface::find(tap.interface_socket()?.as_fd(), &tap.name()?.0)?;
            tap.netlink()?.transmit_drops(&interface)
        });
        self.drops = drops.map_or(self.drops, |drops| drops.saturating_sub(self.drops_before));
        Some(self.drops)
    }

    pub(super) fn close(&mut self) {
        self.kernel_drops();
        if let Some(tap) = self.tap.take()
            && !tap.is_multi_queue()
            && tap.name().is_ok_and(|(_, stays)| stays)
        {
            // The next user of the interface may not expect super-packets. This fails only if the interface
            // is gone.
            let _ = tap.set_offloads(false);
        }
    }
}

/// Applies the settings, and switches the interface on.
fn prepare<F: FnOnce(io::Error) -> DeviceError>(
    tap: &Tap, interface: &Interface, asker: &InterfaceSocket, options: TapOptions,
    fault: &impl Fn(&str) -> F,
) -> Result<Offloads, DeviceError> {
    let asker = asker.as_fd();
    if let Some(stays) = options.persist {
        tap.set_persistent(stays).map_err(fault("cannot be made to stay or go"))?;
    }
    if let Some(bytes) = options.send_buffer_bytes {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        tap.set_send_buffer(bytes).map_err(fault("cannot set its send buffer"))?;
    }
    if let Some(mtu) = options.mtu_bytes {
        let what = format!("cannot set an MTU of {mtu}: 68 to {MTU_BYTES_MAX}");
        interface.set_mtu(asker, i32::try_from(mtu).unwrap_or(i32::MAX)).map_err(fault(&what))?;
    }
    if let Some(frames) = options.ring_frames {
        let frames = i32::try_from(frames).unwrap_or(i32::MAX);
        interface.set_queue_frames(asker, frames).map_err(fault("cannot set its ring"))?;
    }
    let offloads = tap.set_offloads(options.offload).map_err(fault("cannot set its offloads"))?;
    let state = interface.state(asker).map_err(fault("the interface has gone again"))?;
    if !state.is_up {
        let name = tap.name().map(|(name, _)| name).unwrap_or_default();
        interface.bring_up(asker).map_err(fault(&down(&name)))?;
    }
    Ok(offloads)
}

/// Explains a rejection, with a remedy.
fn refusal(error: &io::Error, name: &str, multi_queue: bool) -> String {
    match error.raw_os_error() {
        Some(ENOENT | ENODEV | ENOTTY) => "no /dev/net/tun: `modprobe tun`".into(),
        Some(EPERM) => format!(
            "a TAP interface needs CAP_NET_ADMIN (`wharf devices` says how to get it), or one that was made for you: `ip tuntap add {name} mode tap user USER`"
        ),
        Some(EBUSY) if multi_queue => "its one queue is in use".into(),
        Some(EBUSY) => "it is in use; several queues of one interface: multi_queue=on".into(),
        Some(EINVAL) if multi_queue => {
            "the interface of that name is no TAP, or has one queue only: leave out multi_queue=on".into()
        }
        Some(EINVAL) => "the interface of that name is no TAP, and no macvtap with its file in /dev".into(),
        Some(E2BIG) => "it has no further queue".into(),
        _ => "cannot open it".into(),
    }
}
