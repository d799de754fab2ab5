//! `--report DIR`: the page and its pictures, written; what this machine is.

use crate::args::LabRunArgs;
use anyhow::Context;
use std::path::Path;
use wharf_lab::report::{self, Machine, Section};

/// The command line as it was given, for the page's head.
pub(super) fn command(args: &LabRunArgs) -> String {
    let seed = if args.seed == 1 { String::new() } else { format!(" --seed {}", args.seed) };
    let set: String = args.set.iter().map(|set| format!(" --set {set}")).collect();
    format!("wharf lab run {}{seed}{set} --report DIR", args.name)
}

pub(super) fn write(folder: &Path, sections: &[Section], command: &str) -> anyhow::Result<()> {
    let files = report::files(sections, &machine(command))?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for file in files {
        let path = folder.join(&file.name);
        std::fs::write(&path, &file.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// What this machine says of itself.
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
