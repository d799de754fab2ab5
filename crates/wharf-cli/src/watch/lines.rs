//! `Lines`: the file of `--stats-file`. A reader that stalls holds up no run: what it does not take is left
//! out, a line at a time, and counted. The file is created anew once `logrotate(8)` has moved it.

use crate::output::note;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that only its owner reads. A fifo may have no reader yet.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// The end of a line that is written in part.
    rest: Vec<u8>,
    left_out: u64,
    /// The file was moved, and no other may be made.
    is_stuck: bool,
}

impl Lines {
    /// Creates the file, or empties the one that is there. No link is followed, and no reader of a fifo is waited for.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), file: create(path)?, rest: Vec::new(), left_out: 0, is_stuck: false })
    }

    /// Writes a line, or leaves it out if the reader is behind.
    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        self.write_rest()?;
        if !self.rest.is_empty() {
            self.left_out += 1;
            return Ok(());
        }
        let inode = |metadata: io::Result<Metadata>| metadata.ok().map(|file| (file.dev(), file.ino()));
        if inode(std::fs::metadata(&self.path)) != inode(self.file.metadata()) {
            match create(&self.path) {
                Ok(file) => self.file = file,
                // The user that the run has become may not be allowed to.
                Err(error) if !self.is_stuck => {
                    self.is_stuck = true;
                    let (path, folder) = (self.path.display(), "the folder must be the run's user's");
                    note(&format!(
                        "--stats-file {path}: cannot make it anew: {error}; the old file is written on: {folder}"
                    ));
                }
                Err(_) => {}
            }
        }
        self.rest.extend_from_slice(line.as_bytes());
        self.rest.push(b'\n');
        let len_bytes = self.rest.len();
        self.write_rest()?;
        if self.rest.len() == len_bytes {
            self.rest.clear();
            self.left_out += 1;
        }
        Ok(())
    }

    fn write_rest(&mut self) -> io::Result<()> {
        while !self.rest.is_empty() {
            match self.file.write(&self.rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len_bytes) => drop(self.rest.drain(..len_bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

fn create(path: &Path) -> io::Result<File> {
    // What `copytruncate` of logrotate(8) has cut begins anew.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_APPEND;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(flags);
    let opened = options.clone().create(true).truncate(true).open(path);
    match opened {
        // A fifo without a reader opens for both ways only (fifo(7)).
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => options.read(true).open(path),
        opened => opened,
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
        let mut file = Lines::create(&path).unwrap();
        file.write("one").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        file.write("two").unwrap();
        file.write("three").unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&moved), read(&path)), ("one\n".into(), "two\nthree\n".into()));
        // `copytruncate` empties the file under the writer.
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        file.write("four").unwrap();
        assert_eq!(read(&path), "four\n");
        // The folder takes no new file: the old one is written on.
        std::fs::remove_dir_all(&folder).unwrap();
        file.write("five").unwrap();
    }
}
