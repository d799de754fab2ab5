//! The machine that a report was made on.

/// Returns the properties of this machine, and the command line of the run.
pub fn facts(command: &str) -> Vec<(String, String)> {
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
    facts.map(|(name, value)| (name.to_string(), value)).to_vec()
}
