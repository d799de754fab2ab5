//! Findings about `tap:`, for a diagnosis.

use crate::doctor::finding::{Finding, Weight};
use crate::doctor::{Doctor, Effect, host};
use crate::interfaces::HostInterface;
use crate::spec::{DeviceSpec, Direction};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use wharf_sys::interface::{Interface, InterfaceSocket};
use wharf_sys::namespace::enter_new_network;
use wharf_sys::netlink::Netlink;
use wharf_sys::packet::PacketSocket;
use wharf_sys::tap::Tap;

/// A TAP that exists for a moment, in a network of its own.
const NAME: &str = "wharf0";
/// The kind's part in a diagnosis.
pub(super) const DOCTOR: Doctor = Doctor { findings, effect };

fn findings(spec: &DeviceSpec) -> Vec<Finding> {
    let name = spec.place();
    let found = HostInterface::find(name);
    let mut findings = vec![match &found {
        None => Finding::fact(
            "interface",
            format!("there is no {name} yet: it is made, and goes with the device"),
        ),
        Some(there) if there.driver.as_deref() == Some("tun") || Tap::is_macvtap(name) => {
            let state = if there.is_up { "up" } else { "down, and is switched on" };
            Finding::fact("interface", format!("{name} is a TAP, MTU {}, {state}", there.mtu_bytes))
                .with("up", there.is_up)
                .with("mtu_bytes", there.mtu_bytes)
        }
        Some(there) => {
            let driver = there.driver.as_deref().unwrap_or("another");
            Finding::obstacle(
                "interface",
                Direction::Both,
                format!("{name} is no TAP: its driver is {driver}"),
            )
            .mend("wharf devices")
        }
    }];
    let mut rights = host::rights(spec.kind(), |_| Direction::Both);
    if found.is_some() {
        // One that was made for this user needs no right.
        for finding in rights.iter_mut().filter(|finding| matches!(finding.weight, Weight::Obstacle(_))) {
            finding.weight = Weight::Hint;
        }
    }
    findings.extend(rights);
    findings.extend(host::files(spec.kind()));
    findings.extend(drops_beyond_its_ring().map(|drops| {
        let what = match drops {
            true => "this kernel drops what waits beyond a TAP's `ring`, whatever the interface's discipline: `ring-full`",
            false => "this kernel keeps what waits beyond a TAP's `ring` in the interface's discipline",
        };
        Finding::fact("ring", what).with("drops_beyond_ring", drops)
    }));
    findings
}

/// Returns true if the kernel drops what the ring of a TAP has no room for, false if it stops the queue (a
/// series of 2026): by a TAP in a network of its own. `None` without the rights to make one.
fn drops_beyond_its_ring() -> Option<bool> {
    let found = std::thread::spawn(|| -> io::Result<bool> {
        enter_new_network()?;
        let (_tap, asker, socket) =
            (Tap::open(NAME, false)?, InterfaceSocket::open()?, PacketSocket::open()?);
        let interface = Interface::find(asker.as_fd(), NAME)?;
        interface.set_queue_frames(asker.as_fd(), 2)?;
        interface.bring_up(asker.as_fd())?;
        socket.bind_to_send(interface.index)?;
        for _ in 0..8 {
            socket.send(&[IoSlice::new(&[0; 60])])?;
        }
        Ok(Netlink::open()?.transmit_drops(&interface)? > 0)
    });
    found.join().ok()?.ok()
}

fn effect(spec: &DeviceSpec, _direction: Direction) -> Effect {
    Effect::Short(match HostInterface::find(spec.place()) {
        None => "the interface is made for a moment, and goes again".into(),
        Some(_) => "the interface is switched on, and has a carrier for a moment".into(),
    })
}
