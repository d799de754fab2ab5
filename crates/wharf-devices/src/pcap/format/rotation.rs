//! Rotation: a capture goes on in another file, by size or by time, and old files are removed.
//!
//! A name may have conversions of `strftime(3)` (`eth0-%Y%m%d-%H%M%S.pcap`), which take the local time of a
//! file's first packet. Where they give the name of the file before, or there are none, a number is put
//! before the end of the name: `out.pcap`, `out-1.pcap`, `out-2.pcap`.

use std::collections::VecDeque;
use std::fs::remove_file;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wharf_core::options::{Key, OptionError, Options, split};
use wharf_sys::clock::{local_time, realtime_ns};

/// The options of a rotation, also those of `pcap:`.
pub const ROTATION_KEYS: &[Key] = &[
    Key::number(
        "size",
        4096..=1 << 50,
        "4k to 1p bytes",
        "none",
        "Bytes of a file, after which a new one begins",
    )
    .when("To bound a file; names: see above"),
    Key::time("every", Duration::from_secs(366 * 86_400), "none", "Time after which a new file begins")
        .when("One file for each hour, say; names take conversions of strftime"),
    Key::number("files", 1..=1 << 20, "1 to 1048576 files", "all", "Files that stay: the oldest are removed")
        .when("To bound the disk that is used, with size or every"),
];

/// When a capture goes on in another file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of a file.
    pub size_bytes: Option<u64>,
    /// Time of a file.
    pub every: Option<Duration>,
    /// Files that stay.
    pub files: Option<usize>,
}

impl Rotation {
    /// Reads one from `size=100m,every=1h,files=24`.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let options = Options::parse("rotate", split(text).iter().map(String::as_str), &[ROTATION_KEYS])?;
        Self::of(&options)?.ok_or_else(|| options.fault("say size=SIZE or every=TIME"))
    }

    /// Returns that of options, if they have one.
    ///
    /// # Errors
    /// If files are to be removed, and no new ones begin.
    pub fn of(options: &Options) -> Result<Option<Self>, OptionError> {
        let every = options.time("every").filter(|time| !time.is_zero());
        let files = options.number("files").map(|files| files as usize);
        let size_bytes = options.number("size");
        match (size_bytes.is_some() || every.is_some(), files) {
            (true, _) => Ok(Some(Self { size_bytes, every, files })),
            (false, None) => Ok(None),
            (false, Some(_)) => Err(options.fault("files: say size=SIZE or every=TIME, too")),
        }
    }
}

/// The files of a capture.
#[derive(Debug)]
pub(super) struct Turns {
    rotation: Rotation,
    pattern: String,
    /// The names of the files that stay, in their order; the last is being written.
    files: VecDeque<PathBuf>,
    /// The name of the last without a number, and the numbers given so far.
    last: String,
    number: u64,
    /// When the file is over, ns of the packets' clock.
    due_ns: u64,
}

impl Turns {
    /// Begins the first file, which is named by the time now.
    pub(super) fn new(rotation: Rotation, pattern: &Path) -> Self {
        let pattern = pattern.to_string_lossy().into_owned();
        let mut turns =
            Self { rotation, pattern, files: VecDeque::new(), last: String::new(), number: 0, due_ns: 0 };
        let (now_ns, path) = (realtime_ns(), turns.next(realtime_ns()));
        turns.begin(path, now_ns);
        turns
    }

    /// The file being written.
    pub(super) fn path(&self) -> &Path {
        self.files.back().map_or(Path::new(""), PathBuf::as_path)
    }

    /// True if the next packet, of `ts_ns`, is for another file than the one of `len_bytes`.
    pub(super) fn is_due(&self, len_bytes: u64, ts_ns: u64) -> bool {
        self.rotation.size_bytes.is_some_and(|most_bytes| len_bytes >= most_bytes) || ts_ns >= self.due_ns
    }

    /// Returns the name of a file that begins at `ts_ns`.
    pub(super) fn next(&mut self, ts_ns: u64) -> PathBuf {
        let name = match self.pattern.contains('%') {
            true => local_time(&self.pattern, ts_ns / 1_000_000_000).unwrap_or_else(|| self.pattern.clone()),
            false => self.pattern.clone(),
        };
        if name != self.last {
            (self.last, self.number) = (name.clone(), 0);
            return name.into();
        }
        self.number += 1;
        let path = Path::new(&name);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let end = path.extension().map_or(String::new(), |end| format!(".{}", end.to_string_lossy()));
        path.with_file_name(format!("{stem}-{}{end}", self.number))
    }

    /// Notes that the file `path` has begun at `ts_ns`, and removes the oldest.
    pub(super) fn begin(&mut self, path: PathBuf, ts_ns: u64) {
        self.files.push_back(path);
        self.due_ns =
            self.rotation.every.map_or(u64::MAX, |every| ts_ns.saturating_add(every.as_nanos() as u64));
        while self.rotation.files.is_some_and(|most| self.files.len() > most) {
            // Another program may have taken it away.
            self.files.pop_front().into_iter().for_each(|path| _ = remove_file(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn turns(pattern: &str, rotation: &str) -> Turns {
        Turns::new(Rotation::parse(rotation).unwrap(), Path::new(pattern))
    }

    #[test]
    fn names_are_numbered_where_time_gives_no_other() {
        let mut turns_of_size = turns("no-folder/out.pcap", "size=4k");
        assert_eq!(turns_of_size.path(), Path::new("no-folder/out.pcap"));
        let next = [5 * S, 6 * S].map(|ts_ns| turns_of_size.next(ts_ns));
        assert_eq!(next, ["no-folder/out-1.pcap", "no-folder/out-2.pcap"].map(PathBuf::from));
        let mut by_time = turns("%s.x", "every=2s");
        let next = [7 * S, 7 * S + 1, 9 * S].map(|ts_ns| by_time.next(ts_ns));
        assert_eq!(next, ["7.x", "7-1.x", "9.x"].map(PathBuf::from));
    }

    #[test]
    fn a_file_is_over_by_size_or_time() {
        let mut turns = turns("no-folder/out", "size=5k,every=10s,files=2");
        turns.begin("no-folder/b".into(), 100 * S);
        let due =
            [(5119, 109 * S), (5120, 100 * S), (24, 110 * S)].map(|(len, ts_ns)| turns.is_due(len, ts_ns));
        assert_eq!(due, [false, true, true]);
        turns.begin("no-folder/c".into(), 0);
        assert_eq!(turns.files, ["no-folder/b", "no-folder/c"].map(PathBuf::from));
    }

    #[test]
    fn an_incomplete_rotation_is_refused() {
        for (wrong, says) in [("files=3", "size=SIZE or every=TIME"), ("size=1", "4k to 1p"), ("x=1", "x")] {
            let error = Rotation::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
