//! `StatsFile`: the file of `--stats-file`, created anew once `logrotate(8)` has moved it.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wharf_sys::file::create_private;

/// See the module.
#[derive(Debug)]
pub(super) struct StatsFile {
    path: PathBuf,
    file: File,
}

impl StatsFile {
    /// Creates the file, or empties the one that is there.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), file: create_private(path)? })
    }

    /// Writes a line, into a new file if the one at the path is another.
    pub(super) fn write_line(&mut self, line: &str) -> io::Result<()> {
        let inode = |metadata: io::Result<Metadata>| metadata.ok().map(|file| (file.dev(), file.ino()));
        if inode(std::fs::metadata(&self.path)) != inode(self.file.metadata()) {
            // The user that the run has become may not be allowed to: the old file is written on.
            create_private(&self.path).into_iter().for_each(|file| self.file = file);
        }
        writeln!(self.file, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_into_a_new_file_once_the_old_one_was_moved() {
        let folder = std::env::temp_dir().join(format!("wharf-stats-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [path, moved] = ["now", "before"].map(|name| folder.join(name));
        let mut file = StatsFile::create(&path).unwrap();
        file.write_line("one").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        file.write_line("two").unwrap();
        file.write_line("three").unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&moved), read(&path)), ("one\n".into(), "two\nthree\n".into()));
        // The folder takes no new file: the old one is written on.
        std::fs::remove_dir_all(&folder).unwrap();
        file.write_line("four").unwrap();
    }
}
