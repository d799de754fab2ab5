//! `--report DIR`: writes the page and its pictures, with the properties of this machine.

use crate::files;
use anyhow::Context;
use std::path::Path;
use wharf_lab::report::{self, Machine, Section};

/// Makes the folder if there is none, and checks that files can be made in it.
pub(super) fn make(folder: &Path) -> anyhow::Result<()> {
    files::make_folder(folder)?;
    let probe = folder.join(format!(".report.{}", std::process::id()));
    let tried = std::fs::write(&probe, "written").and_then(|()| std::fs::remove_file(&probe));
    if tried.is_err() {
        // Made, but not written: on a full disk.
        let _ = std::fs::remove_file(&probe);
    }
    tried.with_context(|| format!("cannot write into {}", folder.display()))
}

/// Writes the files; `command` is the command line in the page's head.
pub(super) fn write(folder: &Path, sections: &[Section], command: &str) -> anyhow::Result<()> {
    let pages = report::files(sections, &machine(command))?;
    let pages: Vec<(&str, &str)> =
        pages.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    files::write_report(folder, &pages)
}

/// Returns the properties of this machine.
fn machine(command: &str) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or("");
        line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_string()
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_string();
    let facts = [
        ("command", command.to_string()),
        ("program", format!("wharf {}", env!("CARGO_PKG_VERSION"))),
        ("processor", value(&read("/proc/cpuinfo"), "model name")),
        ("processors", cpus.to_string()),
        ("memory", value(&read("/proc/meminfo"), "MemTotal")),
        ("kernel", if kernel.is_empty() { "unknown".into() } else { format!("Linux {kernel}") }),
    ];
    Machine { facts: facts.map(|(name, value)| (name.to_string(), value)).to_vec() }
}
