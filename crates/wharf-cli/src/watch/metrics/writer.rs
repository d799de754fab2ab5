//! `Writer`: the text of OpenMetrics 1.0, or the classic format (version 0.0.4), a family after the other.

use crate::plain::plain;
use std::fmt::{Display, Write};

/// The text so far. In the classic format counters are described by their whole names, and families in
/// nanoseconds, which a linter refuses, are left out.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    is_classic: bool,
    /// The family is left out.
    skips: bool,
}

impl Writer {
    pub(super) fn new(is_classic: bool) -> Self {
        Self { is_classic, ..Self::default() }
    }

    /// Describes a family, whose name ends with its unit if it says one.
    pub(super) fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        self.skips = self.is_classic && name.ends_with("_ns");
        if self.skips {
            return;
        }
        let (suffix, kind) = match kind {
            "counter" if self.is_classic => ("_total", kind),
            "info" if self.is_classic => ("_info", "gauge"),
            _ => ("", kind),
        };
        // A string takes all that is written.
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
        if !unit.is_empty() && !self.is_classic {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }

    /// Adds a value of the family described last.
    pub(super) fn value(&mut self, name: &str, labels: &str, value: impl Display) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        if !self.skips {
            let _ = writeln!(self.text, "{name}{labels} {value}");
        }
    }

    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, labels: &str, suffix: &str, value: f64) {
        self.family(name, kind, "", help);
        self.value(&format!("{name}{suffix}"), labels, value);
    }

    /// Adds a histogram: of `count` values, whose sum is `sum`, those up to each bound.
    pub(super) fn histogram(
        &mut self, name: &str, labels: &str, within: &[(f64, u64)], count: u64, sum: f64,
    ) {
        for (bound, values) in within {
            self.value(&format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), *values as f64);
        }
        self.value(&format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), count as f64);
        self.value(&format!("{name}_count"), labels, count as f64);
        self.value(&format!("{name}_sum"), labels, sum);
    }

    pub(super) fn end(self) -> String {
        self.text + if self.is_classic { "" } else { "# EOF\n" }
    }
}

/// Returns a label. Its value is without letters that a terminal obeys, and escaped as the format wants it.
pub(super) fn label(name: &str, value: &str) -> String {
    let value = plain(value).replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_device_breaks_a_scrape() {
        let values = ["a\"b", "a\\b", "a\nb", "\u{1b}[31m", "xdp:eth0"].map(|value| label("d", value));
        assert_eq!(
            values,
            [r#"d="a\"b""#, r#"d="a\\b""#, r#"d="a\nb""#, r#"d="\\u{1b}[31m""#, r#"d="xdp:eth0""#]
        );
    }

    #[test]
    fn the_classic_format_has_whole_names_and_no_nanoseconds() {
        let text = |is_classic| {
            let mut all = Writer::new(is_classic);
            all.family("a_packets", "counter", "packets", "Help.");
            all.value("a_packets_total", "", 3);
            all.one("wait_ns", "gauge", "Help.", "", "", 1.0);
            all.one("build", "info", "Help.", "version=\"1\"", "_info", 1.0);
            all.end()
        };
        let open = "# HELP a_packets Help.\n# TYPE a_packets counter\n# UNIT a_packets packets\na_packets_total 3\n\
                    # HELP wait_ns Help.\n# TYPE wait_ns gauge\nwait_ns 1\n\
                    # HELP build Help.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n# EOF\n";
        let classic = "# HELP a_packets_total Help.\n# TYPE a_packets_total counter\na_packets_total 3\n\
                       # HELP build_info Help.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!([text(false), text(true)], [open, classic]);
    }
}
