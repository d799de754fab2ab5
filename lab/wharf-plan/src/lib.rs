//! The planner: the packet rate that a server can carry, and the part that limits it.
//!
//! - [`interface`]: the settings of a network interface, read from sysfs and ethtool.
//! - [`nics`]: descriptions of NICs (`nics/*.toml`, each number with its source).
//! - [`pcie`]: the cost of transfers on a PCI Express link, and a model of the link in time.
//! - [`page`]: the frame of every page of a report.
//! - [`picture`]: the frame of every picture, and lines.
//! - [`plan`]: the answer to a question, with the limit of each part.
#![forbid(unsafe_code)]

pub mod interface;
pub mod nics;
pub mod page;
pub mod pcie;
pub mod picture;
pub mod plan;

/// Returns `text` with the characters replaced that HTML and SVG reserve, quotes included.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns text for HTML as [`escaped`] does, with what stands between two backticks as code.
pub fn marked(text: &str) -> String {
    let escaped = escaped(text);
    let parts: Vec<&str> = escaped.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let part = |(at, part): (usize, &&str)| match at % 2 {
        0 => (*part).to_string(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}
