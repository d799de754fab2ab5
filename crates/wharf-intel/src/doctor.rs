//! Findings about an adapter, for a diagnosis.

use super::address::{address, check_model};
use super::family::Family;
use crate::pci::{PciFunction, VFIO_PCI};
use wharf_devices::doctor::{Doctor, Effect, Finding, host};
use wharf_devices::spec::{DeviceSpec, Direction};

/// Returns the part of a family's kind in a diagnosis.
pub(super) const fn of<F: Family>() -> Doctor {
    Doctor { findings: findings::<F>, effect: effect::<F> }
}

fn obstacle(subject: &'static str, what: String) -> Finding {
    Finding::obstacle(subject, Direction::Both, what)
}

fn findings<F: Family>(spec: &DeviceSpec) -> Vec<Finding> {
    let Ok(address) = address(spec) else { return Vec::new() };
    let Some(function) = PciFunction::find(address) else {
        return vec![obstacle("adapter", format!("there is no adapter {address}")).mend("lspci -D")];
    };
    let mut findings = vec![match check_model::<F>(&function) {
        Ok(model) => Finding::fact("adapter", format!("{address} is an {model}")).with("model", model),
        // The driver of a foreign adapter keeps it.
        Err(what) => return vec![obstacle("adapter", what).mend("lspci -nn -D -d 8086:")],
    }];
    findings.push(driver(&function));
    findings.extend(iommu(&function));
    findings.extend(host::files(spec.kind()));
    findings.extend(host::locked_memory());
    findings.extend(host::huge_pages(Some("the IOMMU looks up each page of 4 KiB that the adapter reaches")));
    findings
}

fn driver(function: &PciFunction) -> Finding {
    let (address, name) = (function.address, function.driver.as_deref());
    let bind = format!("sudo wharf admin bind {address} vfio");
    let finding = match name {
        Some(VFIO_PCI) => Finding::fact("driver", format!("{VFIO_PCI} holds it")),
        Some(driver) => obstacle("driver", format!("the kernel's {driver} has it")).mend(bind),
        None => obstacle("driver", "no driver has it".into()).mend(bind),
    };
    finding.with("driver", name.unwrap_or_default())
}

fn iommu(function: &PciFunction) -> Vec<Finding> {
    let Some(group) = function.group else {
        let what = "no IOMMU keeps its DMA apart from the rest of memory".to_string();
        return vec![
            obstacle("iommu", what).mend("intel_iommu=on or amd_iommu=on on the kernel's command line"),
        ];
    };
    let others = function.in_the_way();
    let names: Vec<String> = others.iter().map(|other| other.address.to_string()).collect();
    let finding = match names.is_empty() {
        true => Finding::fact(
            "iommu",
            format!("it is in IOMMU group {group}, which no driver of the kernel has a part of"),
        ),
        false => {
            let what = format!("the IOMMU cannot tell it from {}, which the kernel has", names.join(", "));
            obstacle("iommu", what).mend(format!("sudo wharf admin bind {} vfio, for each", names[0]))
        }
    };
    vec![finding.with("group", group)]
}

/// Nothing but an adapter of the family that a program may have is touched.
fn effect<F: Family>(spec: &DeviceSpec, _direction: Direction) -> Effect {
    let function = address(spec).ok().and_then(PciFunction::find);
    match function.filter(|function| check_model::<F>(function).is_ok() && function.is_with_vfio()) {
        Some(_) => Effect::Reset("the adapter is reset for a moment, and loses its link".into()),
        None => Effect::None,
    }
}
