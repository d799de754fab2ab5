//! Findings about this machine and process: rights, locked memory, huge pages.

use super::finding::Finding;
use crate::host::number_in;
use crate::requirements::{Capability, Machine, Requirement, capabilities};
use crate::spec::{Direction, Kind};
use std::fs;
use std::path::Path;

/// CAP_IPC_LOCK: no bound of locked memory.
const IPC_LOCK: Capability = Capability { name: "cap_ipc_lock", bit: 14 };
/// 2 MiB pages of the whole machine (Documentation/admin-guide/mm/hugetlbpage.rst).
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
/// Bytes below which a limit of locked memory is worth a hint: a pool of 32 768 frames.
const AMPLE_BYTES: u64 = 64 << 20;

/// Returns the findings on the capabilities that `kind` needs. `prevents` names the direction that fails
/// without one.
pub(crate) fn rights(kind: &Kind, prevents: fn(&Capability) -> Direction) -> Vec<Finding> {
    let machine = Machine::look();
    let named = |is_wanted: &dyn Fn(&Capability) -> bool| {
        let names =
            capabilities(kind.requirements).filter(|one| is_wanted(one)).map(|one| one.name.to_uppercase());
        names.collect::<Vec<_>>().join(", ")
    };
    let mut findings = Vec::new();
    for direction in [Direction::Both, Direction::Send, Direction::Receive] {
        let lacking = named(&|one| !machine.has(one) && prevents(one) == direction);
        if !lacking.is_empty() {
            let what = format!("this process has no {lacking}");
            let finding =
                Finding::obstacle("capabilities", direction, what).mend(machine.setcap(kind.requirements));
            findings.push(finding.with("lacks", lacking));
        }
    }
    let has = named(&|one| machine.has(one));
    if findings.is_empty() && !has.is_empty() {
        findings.push(Finding::fact("capabilities", format!("this process has {has}")));
    }
    if machine.is_contained() {
        let what = "this process is in a user namespace: its rights hold for what belongs to that alone";
        findings.push(Finding::fact("user-namespace", what).with("contained", true));
    }
    findings
}

/// Returns the findings on files that `kind` needs and that are not there.
pub fn files(kind: &Kind) -> Vec<Finding> {
    let missing = |requirement: &Requirement| match *requirement {
        Requirement::File { path, mend } if !Path::new(path).exists() => {
            Some(Finding::obstacle("files", Direction::Both, format!("there is no {path}")).mend(mend))
        }
        _ => None,
    };
    kind.requirements.iter().filter_map(missing).collect()
}

/// Returns the finding on the memory that this process may lock, which the kernel counts pools of `xdp` towards.
pub fn locked_memory() -> Option<Finding> {
    let limit = limit_bytes(&fs::read_to_string("/proc/self/limits").ok()?)?;
    let machine = Machine::look();
    // The kernel checks the capability in the initial user namespace; one held in another namespace does not
    // count.
    if machine.has(&IPC_LOCK) && !machine.is_contained() {
        return Some(Finding::fact("memlock", "CAP_IPC_LOCK: no bound on locked memory"));
    }
    Some(match limit {
        None => Finding::fact("memlock", "no bound on locked memory"),
        Some(bytes) => {
            let (kib, frames) = (bytes >> 10, bytes >> 11);
            let what =
                format!("{kib} KiB may be locked: all pools together have {frames} frames of 2 KiB at most");
            let weight = if bytes < AMPLE_BYTES { Finding::hint } else { Finding::fact };
            weight("memlock", what).mend("ulimit -l unlimited").with("limit_bytes", bytes)
        }
    })
}

/// Returns the soft limit in the text of /proc/PID/limits; `None` inside if there is none.
fn limit_bytes(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        bytes => bytes.parse().ok().map(Some),
    }
}

/// Returns the finding on free 2 MiB pages; `purpose` says why they matter, if they do.
pub fn huge_pages(purpose: Option<&str>) -> Option<Finding> {
    let read = |file: &str| number_in::<u64>(&format!("{HUGE_PAGES}/{file}"));
    let (all, free, reserved) =
        (read("nr_hugepages")?, read("free_hugepages")?, read("resv_hugepages").unwrap_or(0));
    let free = free.saturating_sub(reserved);
    let finding = match (free, purpose) {
        (0, Some(purpose)) => Finding::hint("pages", format!("no 2 MiB page is free: {purpose}"))
            .mend("sudo sysctl vm.nr_hugepages=64"),
        (0, None) => Finding::fact("pages", "no 2 MiB page is free: pools take pages of 4 KiB"),
        _ => Finding::fact("pages", format!("{free} of {all} pages of 2 MiB are free")),
    };
    Some(finding.with("free", free).with("all", all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_locked_memory_is_read_or_unknown() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max locked memory         8388608              8388608              bytes     \n";
        assert_eq!(limit_bytes(limits), Some(Some(8 << 20)));
        assert_eq!(limit_bytes(&limits.replace("8388608", "unlimited")), Some(None));
        assert_eq!([limit_bytes(""), limit_bytes("Max locked memory  x")], [None, None]);
    }
}
