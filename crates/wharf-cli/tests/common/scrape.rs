//! A client of `--metrics`.

use super::eventually;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Values by name and labels, as they are written.
#[derive(Debug)]
pub struct Scrape {
    pub text: String,
    values: BTreeMap<String, u64>,
}

impl Scrape {
    /// Scrapes the socket at `path`, once there is one.
    pub fn of(path: &Path) -> Self {
        let answer = ask(path, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("openmetrics-text; version=1.0.0"),
            "{head}"
        );
        assert!(text.ends_with("# EOF\n"), "{text}");
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            // Those in base units are no whole numbers.
            (name.to_string(), value.parse::<f64>().unwrap_or_else(|_| panic!("{line}")) as u64)
        };
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let values: BTreeMap<String, u64> = lines.iter().map(|line| value(line)).collect();
        assert_eq!(values.len(), lines.len(), "a value is there twice: {text}");
        Self { text: text.into(), values }
    }

    /// Returns the sum of the values of `name`, whatever their labels; 0 without any.
    pub fn sum(&self, name: &str) -> u64 {
        self.values
            .iter()
            .filter(|(key, _)| key.split('{').next() == Some(name))
            .map(|(_, value)| value)
            .sum()
    }

    /// Returns the values of `name` by `label`, summed up, without those of 0.
    pub fn by(&self, name: &str, label: &str) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (key, value) in self.values.iter().filter(|(key, _)| key.split('{').next() == Some(name)) {
            let (_, rest) = key.split_once(&format!("{label}=\"")).unwrap_or_else(|| panic!("{key}"));
            *all.entry(rest.split('"').next().unwrap().to_string()).or_default() += value;
        }
        all.retain(|_, value| *value > 0);
        all
    }
}

/// Sends `request` and returns the whole answer.
pub fn ask(path: &Path, request: &str) -> String {
    let mut stream = connected(path);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // A server that refuses the request may close before it has all of it.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    // A server that closes with bytes unread resets the connection.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// Connects to the socket at `path`, once there is one.
pub fn connected(path: &Path) -> UnixStream {
    eventually(|| UnixStream::connect(path).map_err(|error| format!("{}: {error}", path.display())))
}
