//! Findings about `packet:` on an interface, for a diagnosis.

use crate::doctor::finding::Finding;
use crate::doctor::kernel::{self, EVER, Flaw, FlawWeight, Version};
use crate::doctor::{Doctor, Effect, host, interface};
use crate::spec::{DeviceSpec, Direction};

/// The kind's part in a diagnosis.
pub(super) const DOCTOR: Doctor = Doctor { findings, effect: |_, _| Effect::None };

const LATE: Flaw = Flaw {
    from: EVER,
    until: Version(6, 18, 0),
    weight: FlawWeight::Hint,
    what: "received frames come up to 8 ms late, a block at a time; tpacket=v2 has each at once",
};

fn findings(spec: &DeviceSpec) -> Vec<Finding> {
    let (_, mut findings) = interface::examine(spec.place());
    findings.extend(host::rights(spec.kind(), |_| Direction::Both));
    let has_blocks = spec.options().word("tpacket") != Some("v2");
    findings.extend(kernel::findings(if has_blocks { &[LATE] } else { &[] }));
    findings
}
