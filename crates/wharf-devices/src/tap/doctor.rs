//! Findings about `tap:`, for a diagnosis.

use crate::doctor::finding::{Finding, Weight};
use crate::doctor::{Doctor, Effect, host};
use crate::interfaces::HostInterface;
use crate::spec::{DeviceSpec, Direction};

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
        Some(there) if there.driver.as_deref() == Some("tun") => {
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
    findings
}

fn effect(spec: &DeviceSpec, _direction: Direction) -> Effect {
    Effect::Short(match HostInterface::find(spec.place()) {
        None => "the interface is made for a moment, and goes again".into(),
        Some(_) => "the interface is switched on, and has a carrier for a moment".into(),
    })
}
