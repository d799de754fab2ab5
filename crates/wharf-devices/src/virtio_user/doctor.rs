//! The effect of opening `virtio-user:`, for a diagnosis: its findings are the errors of opening.

use crate::doctor::{Doctor, Effect};

/// The kind's part in a diagnosis.
pub(super) const DOCTOR: Doctor = Doctor {
    findings: |_| Vec::new(),
    effect: |spec, _| match spec.options().is_on("server") {
        true => Effect::Lasting("opening it waits up to 60 s for a back end to connect".into()),
        false => Effect::Short("the back end sees a driver that comes and goes".into()),
    },
};
