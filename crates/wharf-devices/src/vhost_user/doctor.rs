//! The effect of opening `vhost-user:`, for a diagnosis: its findings are the errors of opening.

use crate::doctor::{Doctor, Effect};

/// The kind's part in a diagnosis.
pub(super) const DOCTOR: Doctor = Doctor {
    findings: |_| Vec::new(),
    effect: |spec, _| {
        Effect::Short(match spec.options().is_on("client") {
            true => "the driver sees a device that comes and goes".into(),
            false => {
                "the socket is there for a moment: a driver that connects then sees a device that goes".into()
            }
        })
    },
};
