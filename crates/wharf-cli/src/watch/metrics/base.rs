//! Metrics in base units (seconds, bytes), histograms, and those of the process, as monitors expect them.

use super::writer::{Writer, label};
use crate::watch::board::Board;
use crate::watch::device::{DeviceRow, Facts, LINK_UP};
use crate::watch::running::Running;
use std::fs;
use wharf_devices::interfaces::HostInterface;
use wharf_devices::registry::Registry;
use wharf_devices::spec::Place;
use wharf_sys::usage;

/// Bounds of the histogram of delays, in microseconds.
const BOUNDS_US: [u64; 14] =
    [10, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// Bounds of the histogram of batches, in packets: those that a queue tells apart.
const BOUNDS_PACKETS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Adds them.
pub(super) fn add(all: &mut Writer, board: &Board) {
    let version = format!("version=\"{}\",commit=\"{}\"", env!("CARGO_PKG_VERSION"), env!("WHARF_COMMIT"));
    all.one("wharf_build", "info", "The build.", &version, "_info", 1.0);
    all.one(
        "process_start_time_seconds",
        "gauge",
        "When the run began, since 1970.",
        "",
        "",
        board.began_s(),
    );
    all.of_process();
    let paths = board.paths().clone();
    all.of_paths(&paths);
}

impl Writer {
    fn of_process(&mut self) {
        let (user, kernel) = usage::cpu_seconds();
        self.one("process_cpu_seconds", "counter", "Processor time.", "", "_total", user + kernel);
        // A sandbox may refuse these.
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            self.one("process_open_fds", "gauge", "Open descriptors.", "", "", open.count() as f64);
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        if let Some(kib) = resident.and_then(|kib| kib.parse::<f64>().ok()) {
            self.one("process_resident_memory_bytes", "gauge", "Memory in use.", "", "", kib * 1024.0);
        }
    }

    fn of_paths(&mut self, paths: &[Running]) {
        if paths.is_empty() {
            return;
        }
        let of = |path: &Running| label("path", &path.path);
        let of_ends = |path: &Running| {
            let ends = [("from", &path.from), ("to", &path.to)]
                .map(|(name, end)| label(name, end.as_deref().unwrap_or_default()));
            (format!("{},{}", of(path), ends.join(",")), 1.0)
        };
        let ends: Vec<_> = paths.iter().map(of_ends).collect();
        self.named(
            ["wharf_path", "wharf_path_info"],
            "gauge",
            "1; the labels are the ends of a path.",
            "",
            &ends,
        );
        self.family(
            "wharf_path_rate_bytes_per_second",
            "gauge",
            "",
            "Rate that was asked for; 0 without one.",
        );
        for path in paths {
            let rate = path.settings().and_then(|settings| settings.rate);
            let bytes = rate.map_or(0, |rate| rate.bits_per_second() / 8);
            self.value("wharf_path_rate_bytes_per_second", &of(path), bytes as f64);
        }
        let name = "wharf_path_drops_packets";
        self.family(name, "counter", "", "Packets that a path has lost, as the summary counts them.");
        for path in paths {
            for (reason, packets) in path.drops() {
                let labels = format!("{},{}", of(path), label("reason", &reason));
                self.value(&format!("{name}_total"), &labels, packets);
            }
        }
        let devices: Vec<_> = paths.iter().map(|path| (path, path.device())).collect();
        self.of_links(&devices, of);
        let name = "wharf_qdisc_delay_seconds";
        self.family(
            name,
            "histogram",
            "",
            "Time that packets waited in the discipline, by band; one of 16 is measured.",
        );
        for path in paths.iter().filter(|path| path.to.is_some()) {
            for (band, delay) in
                path.delay_by_band().iter().enumerate().filter(|(_, delay)| delay.packets() > 0)
            {
                let within = BOUNDS_US
                    .map(|bound_us| (bound_us as f64 / 1e6, delay.packets_within_ns(bound_us * 1000)));
                let labels = format!("{},band=\"{band}\"", of(path));
                self.histogram(name, &labels, &within, delay.packets(), delay.sum_ns() / 1e9);
            }
        }
        self.of_devices(&devices);
        self.of_batches(paths, of);
    }

    fn of_links(&mut self, devices: &[(&Running, Option<DeviceRow>)], of: impl Fn(&Running) -> String) {
        self.family(
            "wharf_link_up",
            "gauge",
            "",
            "1 while the interface of a path's end is up and has a carrier, or the peer of its socket is ready.",
        );
        for (path, device) in devices {
            let facts = device.as_ref().map(|device| &device.facts);
            let is_up = facts.and_then(|facts| facts.get(LINK_UP)).filter(|_| path.to.is_some());
            let labels = format!("{},{}", of(path), label("device", path.to.as_deref().unwrap_or_default()));
            is_up.into_iter().for_each(|&is_up| self.value("wharf_link_up", &labels, is_up as f64));
        }
        for (path, _) in devices {
            // A port of a switch is both ends of its direction.
            let to = path.to.as_ref().filter(|to| path.from.as_ref() != Some(to));
            for end in path.from.iter().chain(to) {
                let Some(is_up) = is_link_up(end) else { continue };
                let labels = format!("{},{}", of(path), label("device", end));
                self.value("wharf_link_up", &labels, f64::from(u8::from(is_up)));
            }
        }
    }

    /// Adds the figures of devices that have some of their own.
    fn of_devices(&mut self, devices: &[(&Running, Option<DeviceRow>)]) {
        let devices = || devices.iter().filter_map(|(path, device)| Some((&path.path, device.as_ref()?)));
        if devices().next().is_none() {
            return;
        }
        let constants = devices().map(|(path, device)| {
            let constants = device.constants().map(|(name, value)| label(name, &value));
            (format!("{},{}", label("path", path), constants.join(",")), 1.0)
        });
        let help = "1; the labels are what is constant while a peer is there.";
        let names = ["wharf_device", "wharf_device_info"];
        self.named(names, "gauge", help, "", &constants.collect::<Vec<_>>());
        let pairs = |name| {
            let of = devices().filter_map(move |(path, device)| {
                Some((label("path", path), *device.facts.get(name)? as f64))
            });
            of.collect::<Vec<_>>()
        };
        let help = "Queue pairs of the device.";
        self.named(["wharf_device_pairs"], "gauge", help, "", &pairs("pairs"));
        let (names, help) = (
            ["wharf_device_pairs_in_use", "wharf_device_in_use_pairs"],
            "Queue pairs that the peer has enabled.",
        );
        self.named(names, "gauge", help, "", &pairs("pairs_in_use"));
        for (name, help) in [("interrupts", "Notifications that came."), ("kicks", "Notifications sent.")] {
            let counts = devices().flat_map(|(path, device)| {
                let of_pair = move |(pair, facts): (usize, &Facts)| {
                    let value = facts.get(name).copied().unwrap_or(0);
                    (format!("{},pair=\"{pair}\"", label("path", path)), value as f64)
                };
                device.queue_pairs.iter().enumerate().map(of_pair)
            });
            let names = ["", "_notifications"].map(|unit| format!("wharf_device_pair_{name}{unit}"));
            let names = names.each_ref().map(String::as_str);
            self.named(names, "counter", help, "_total", &counts.collect::<Vec<_>>());
        }
    }

    /// Adds the same values by each of `names`: those without a unit are kept beside those with one.
    fn named<const N: usize>(
        &mut self, names: [&str; N], kind: &str, help: &str, suffix: &str, values: &[(String, f64)],
    ) {
        for name in names {
            self.family(name, kind, "", help);
            values.iter().for_each(|(labels, value)| self.value(&format!("{name}{suffix}"), labels, value));
        }
    }

    fn of_batches(&mut self, paths: &[Running], of: impl Fn(&Running) -> String) {
        let name = "wharf_queue_batch_packets";
        self.family(name, "histogram", "", "Packets that the device took in one call.");
        for path in paths {
            for (number, queue) in path.queues.iter().enumerate() {
                let (counters, mut calls) = (queue.counters(), 0);
                let sizes = counters.batch_sizes();
                let within: Vec<(f64, u64)> = BOUNDS_PACKETS
                    .iter()
                    .zip(sizes)
                    .map(|(&bound, size)| {
                        calls += size;
                        (bound as f64, calls)
                    })
                    .collect();
                let labels = format!("{},number=\"{number}\"", of(path));
                self.histogram(name, &labels, &within, sizes.iter().sum(), counters.packets.get() as f64);
            }
        }
    }
}

/// True if the interface of the device `end` is up and has a carrier; `None` if it has none. One that was
/// deleted is down.
fn is_link_up(end: &str) -> Option<bool> {
    let (kind, rest) = end.split_once(':')?;
    let name = rest.split(',').next().unwrap_or_default();
    let all = Registry::default();
    let place = all.kinds().iter().find(|known| known.name == kind).map(|known| &known.place);
    let is_of_interface = place.map(|place| matches!(place, Place::Interface(_)));
    if is_of_interface == Some(false) {
        return None;
    }
    let found = HostInterface::find(name).map(|interface| interface.has_carrier);
    // A name with escapes is not that of the interface.
    found.or_else(|| (is_of_interface.is_some() && !name.contains('\\')).then_some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_was_deleted_is_down_and_what_is_no_interface_has_no_link() {
        let ends = ["packet:gone-if0", "xdp:gone-if0", "tap:gone-if0", "vhost-user:gone-if0", "null"];
        let [packet, xdp, tap, others @ ..] = ends.map(is_link_up);
        assert_eq!(([packet, xdp, tap], others), ([Some(false); 3], [None; 2]));
        assert!(is_link_up("packet:lo").is_some());
        assert_eq!(is_link_up("vhost-user:lo"), None, "a socket that is named as an interface");
    }
}
