//! Rotation: a capture goes on in another file, by size or by time, and old files are removed.
//!
//! A name may have conversions of `strftime(3)` (`eth0-%Y%m%d-%H%M%S.pcap`), which take the local time of a
//! file's first packet. Where they give the name of the file before, or there are none, a number is put
//! before the end of the name: `out.pcap`, `out-1.pcap`, `out-2.pcap`.

use std::collections::VecDeque;
use std::fs::remove_file;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::create::is_spared_at;
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

/// Time after which a file that could not be made is tried again.
const AGAIN_NS: u64 = 1_000_000_000;
/// A clock that goes back by no more is one that is being set right, or packets that are out of order.
const STEP_BACK_NS_MAX: u64 = 24 * 3600 * 1_000_000_000;

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

    /// Returns the first file of a name that has conversions, as of now.
    #[doc(hidden)]
    pub fn first_file(pattern: &Path) -> PathBuf {
        name_at(&pattern.to_string_lossy(), realtime_ns()).into()
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
    /// When the file is over, ns of the packets' clock; `None` before its first packet.
    due_ns: Option<u64>,
    /// The latest time at which a file has begun, ns.
    newest_ns: u64,
    /// The name of the first file, and the end of its time: packets may be older, and come to it later.
    first: (String, u64),
    /// When the next file is tried again, ns, after it could not be made.
    again_ns: Option<u64>,
}

/// The next file.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) path: PathBuf,
    name: String,
    number: u64,
    ts_ns: u64,
    /// The time that its name has.
    newest_ns: u64,
}

impl Turns {
    /// Begins the first file, which is named by the time now.
    pub(super) fn new(rotation: Rotation, pattern: &Path) -> Self {
        let pattern = pattern.to_string_lossy().into_owned();
        let (files, last, number) = (VecDeque::new(), String::new(), 0);
        let (due_ns, again_ns) = (None, None);
        let (newest_ns, ts_ns) = (0, realtime_ns());
        let name = name_at(&pattern, ts_ns);
        let first = (name.clone(), 0);
        let mut turns = Self { rotation, pattern, files, last, number, due_ns, newest_ns, first, again_ns };
        turns.first.1 = ts_ns.saturating_add(turns.every_ns().min(STEP_BACK_NS_MAX / 2));
        turns.begin(Next { path: name.clone().into(), name, number, ts_ns, newest_ns });
        // Packets may be older: those of a capture that is read.
        turns.due_ns = None;
        turns
    }

    /// The file being written.
    pub(super) fn path(&self) -> &Path {
        self.files.back().map_or(Path::new(""), PathBuf::as_path)
    }

    /// True if the next packet, of `ts_ns`, is for another file than the one of `len_bytes`.
    pub(super) fn is_due(&mut self, len_bytes: u64, ts_ns: u64) -> bool {
        let every_ns = self.every_ns();
        let due_ns = *self.due_ns.get_or_insert(ts_ns.saturating_add(every_ns));
        // A clock that was set back would let the file grow for as long.
        let is_set_back = self.rotation.every.is_some() && ts_ns < due_ns.saturating_sub(2 * every_ns);
        let is_long = self.rotation.size_bytes.is_some_and(|most_bytes| len_bytes >= most_bytes);
        let waits =
            self.again_ns.is_some_and(|at_ns| (at_ns.saturating_sub(AGAIN_NS)..at_ns).contains(&ts_ns));
        (is_long || ts_ns >= due_ns || is_set_back) && !waits
    }

    /// Has the next file tried again a second after `ts_ns`: it could not be made.
    pub(super) fn put_off(&mut self, ts_ns: u64) {
        self.again_ns = Some(ts_ns.saturating_add(AGAIN_NS));
    }

    fn every_ns(&self) -> u64 {
        self.rotation.every.map_or(u64::MAX, |every| every.as_nanos() as u64)
    }

    /// Returns the file that begins at `ts_ns`. A small step back of the clock gives no name anew: that would
    /// empty a file of this run. Nor does it empty one that is read.
    pub(super) fn next(&self, ts_ns: u64) -> Next {
        let is_back = (self.newest_ns.saturating_sub(STEP_BACK_NS_MAX)..self.newest_ns).contains(&ts_ns);
        let newest_ns = if is_back { self.newest_ns } else { ts_ns };
        let name = name_at(&self.pattern, newest_ns);
        let is_first = self.first.0 == name && ts_ns < self.first.1;
        let from = if name == self.last { self.number + 1 } else { u64::from(is_first) };
        let numbered = (from..).map(|number| (number, numbered(Path::new(&name), number)));
        let free = { numbered }.find(|(_, path)| !is_spared_at(path));
        let (number, path) = free.unwrap_or_default();
        Next { path, name, number, ts_ns, newest_ns }
    }

    /// Notes that the file has begun, and removes the oldest. One whose name came back is the new one.
    pub(super) fn begin(&mut self, next: Next) {
        let Next { path, name, number, ts_ns, newest_ns } = next;
        self.files.retain(|file| *file != path);
        self.files.push_back(path);
        (self.last, self.number, self.again_ns) = (name, number, None);
        self.newest_ns = newest_ns;
        self.due_ns = self.rotation.every.map(|every| ts_ns.saturating_add(every.as_nanos() as u64));
        while self.rotation.files.is_some_and(|most| self.files.len() > most) {
            // Another program may have taken it away.
            self.files.pop_front().into_iter().for_each(|path| _ = remove_file(path));
            // The first file goes first, and its name is free.
            self.first.1 = 0;
        }
    }
}

/// Returns the name of a file that begins at `ts_ns`.
fn name_at(pattern: &str, ts_ns: u64) -> String {
    let name = pattern.contains('%').then(|| local_time(pattern, ts_ns / 1_000_000_000)).flatten();
    name.unwrap_or_else(|| pattern.into())
}

/// Puts a number before the end of a name, unless it is 0.
fn numbered(path: &Path, number: u64) -> PathBuf {
    if number == 0 {
        return path.into();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().map_or(String::new(), |end| format!(".{}", end.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{end}"))
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
        let mut of_size = turns("no-folder/out.pcap", "size=4k");
        assert_eq!(of_size.path(), Path::new("no-folder/out.pcap"));
        let names = [5 * S, 6 * S].map(|ts_ns| begun(&mut of_size, ts_ns));
        assert_eq!(names, ["no-folder/out-1.pcap", "no-folder/out-2.pcap"].map(PathBuf::from));
        let mut by_time = turns("no-folder/%s.x", "every=2s");
        let names = [7 * S, 7 * S + 1, 9 * S, 8 * S].map(|ts_ns| begun(&mut by_time, ts_ns));
        let want = ["no-folder/7.x", "no-folder/7-1.x", "no-folder/9.x", "no-folder/9-1.x"];
        assert_eq!(names, want.map(PathBuf::from), "a step back gives no name anew");
        assert_eq!(begun(&mut by_time, 10 * S), Path::new("no-folder/10.x"));
        let mut by_size = turns("no-folder/%s.x", "size=4k");
        let names = [80, 90, 81, 83].map(|tenths| begun(&mut by_size, tenths * S / 10));
        let want = ["no-folder/8.x", "no-folder/9.x", "no-folder/9-1.x", "no-folder/9-2.x"];
        assert_eq!(names, want.map(PathBuf::from), "nor do further packets of that time");
        let mut old = turns("%Y", "every=1s");
        let (first, now_ns) = (old.path().to_path_buf(), realtime_ns());
        let names = [4_000_000 * S, now_ns].map(|ts_ns| begun(&mut old, ts_ns));
        let numbered = PathBuf::from(format!("{}-1", first.display()));
        assert_eq!(names, ["1970".into(), numbered], "the first file has older packets than its name");
    }

    fn begun(turns: &mut Turns, ts_ns: u64) -> PathBuf {
        turns.begin(turns.next(ts_ns));
        turns.path().to_path_buf()
    }

    #[test]
    fn a_file_is_over_by_size_or_time() {
        let mut turns = turns("no-folder/out", "size=5k,every=10s,files=2");
        // The first file is over by the time of its first packet, which may be long ago.
        assert!(!turns.is_due(24, 50 * S) && !turns.is_due(24, 59 * S) && turns.is_due(24, 60 * S));
        begun(&mut turns, 100 * S);
        let due = [(5119, 109 * S), (5120, 100 * S), (24, 110 * S), (24, 91 * S), (24, 89 * S)];
        let due = due.map(|(len, ts_ns)| turns.is_due(len, ts_ns));
        assert_eq!(due, [false, true, true, false, true], "a clock that was set back ends it, too");
        begun(&mut turns, 111 * S);
        assert_eq!(turns.files, ["no-folder/out-1", "no-folder/out-2"].map(PathBuf::from));
        turns.put_off(122 * S);
        assert_eq!([122, 123].map(|s| turns.is_due(24, s * S)), [false, true]);
    }

    #[test]
    fn an_incomplete_rotation_is_refused() {
        for (wrong, says) in [("files=3", "size=SIZE or every=TIME"), ("size=1", "4k to 1p"), ("x=1", "x")] {
            let error = Rotation::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
