//! Findings about the kernel's version: options that it lacks, and faults that are known.

use super::finding::Finding;
use crate::spec::Direction;

/// A version of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub u32, pub u32, pub u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(major, minor, patch) = self;
        if *patch == 0 { write!(f, "{major}.{minor}") } else { write!(f, "{major}.{minor}.{patch}") }
    }
}

/// A fault of kernels from version `from` on, and before `until`: something that they lack, or do wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flaw {
    pub from: Version,
    pub until: Version,
    pub weight: FlawWeight,
    pub what: &'static str,
}

/// The weight of a flaw.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FlawWeight {
    Fact,
    Hint,
    Prevents(Direction),
}

/// The first version of all.
pub(crate) const EVER: Version = Version(0, 0, 0);

impl Version {
    /// Reads a release, such as `6.12.41+deb13-amd64`.
    pub(crate) fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split('.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse::<u32>().ok()
        });
        Some(Self(numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    }

    /// Returns the version of the running kernel.
    fn running() -> Option<(Self, String)> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_string();
        Some((Self::parse(&release)?, release))
    }
}

/// Returns the findings on the running kernel: its version, and each of `flaws` that it has by its number. A distribution may have
/// mended one in an older version.
pub(crate) fn findings(flaws: &[Flaw]) -> Vec<Finding> {
    let Some((version, release)) = Version::running() else { return Vec::new() };
    let own = Finding::fact("kernel", format!("Linux {release}")).with("release", release.as_str());
    std::iter::once(own).chain(of_version(version, flaws)).collect()
}

fn of_version(version: Version, flaws: &[Flaw]) -> impl Iterator<Item = Finding> {
    let has = move |flaw: &&Flaw| (flaw.from..flaw.until).contains(&version);
    flaws.iter().filter(has).map(|flaw| {
        let finding = match flaw.weight {
            FlawWeight::Fact => Finding::fact("kernel", flaw.what),
            FlawWeight::Hint => Finding::hint("kernel", flaw.what),
            FlawWeight::Prevents(direction) => Finding::obstacle("kernel", direction, flaw.what),
        };
        finding.mend(format!("Linux {} or later", flaw.until)).with("mended_in", flaw.until.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_are_read() {
        let all = ["6.12.41+deb13-amd64", "6.18-rc3", "5.4.0-216-generic", "7.3"].map(Version::parse);
        let want = [Version(6, 12, 41), Version(6, 18, 0), Version(5, 4, 0), Version(7, 3, 0)];
        assert_eq!(all, want.map(Some));
        assert_eq!(["", "6", "x.y"].map(Version::parse), [None; 3]);
    }

    #[test]
    fn a_flaw_ends_with_the_version_that_mends_it() {
        let flaw =
            Flaw { from: Version(6, 17, 0), until: Version(6, 17, 11), weight: FlawWeight::Hint, what: "x" };
        let count = |version| of_version(version, &[flaw]).count();
        let versions = [Version(6, 16, 12), Version(6, 17, 0), Version(6, 17, 10), Version(6, 17, 11)];
        assert_eq!(versions.map(count), [0, 1, 1, 0]);
    }
}
