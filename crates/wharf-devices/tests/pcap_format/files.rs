//! Paths that name all sorts of things.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use super::*;

fn open_error(path: &Path) -> String {
    PcapReader::open(path).unwrap_err().to_string()
}

fn create_error(path: &Path) -> String {
    PcapWriter::create(path, PcapOptions::default()).unwrap_err().to_string()
}

#[test]
fn written_to_a_file_and_read_back() {
    let scratch = Scratch::new();
    let path = scratch.file("x.pcap");
    let mut writer = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    let data = [7; 1000];
    for i in 0..300 {
        writer.write(i, [&data[..]], 1000).unwrap(); // several buffers full
    }
    writer.finish().unwrap();
    let mut reader = PcapReader::open(&path).unwrap();
    assert_eq!(reader.name(), path.to_str().unwrap());
    let mut buf = Vec::new();
    for ts_ns in 0..300 {
        let record = Record { ts_ns, wire_len: 1000, left_out: None };
        assert_eq!(reader.next(&mut buf).unwrap(), Some(record));
        assert_eq!(buf, data);
    }
    assert_eq!(reader.next(&mut buf).unwrap(), None);
}

#[test]
fn the_sample_is_read_to_its_end() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/sample.pcap");
    let mut reader = PcapReader::open(&path).unwrap();
    assert_eq!(reader.byte_order(), ByteOrder::Little);
    let (mut buf, mut count, mut sum_bytes, mut last_ns) = (Vec::new(), 0, 0, 0);
    while let Some(record) = reader.next(&mut buf).unwrap() {
        assert!((60..=1514).contains(&buf.len()));
        assert_eq!(record.wire_len as usize, buf.len());
        assert!(record.ts_ns >= last_ns);
        (count, sum_bytes, last_ns) = (count + 1, sum_bytes + buf.len(), record.ts_ns);
    }
    assert_eq!((count, sum_bytes), (2200, 1_321_639)); // as data/README.md says
}

#[test]
fn a_missing_file() {
    let path = Scratch::new().file("x.pcap");
    let expected = format!("{}: cannot open: No such file or directory", path.display());
    assert!(open_error(&path).starts_with(&expected));
    assert!(create_error(&path).starts_with(&expected)); // the directory is gone
}

#[test]
fn a_directory() {
    let scratch = Scratch::new();
    let shown = scratch.0.display();
    let expected = |verb| format!("{shown}: is a directory; wharf {verb} regular files");
    assert_eq!(open_error(&scratch.0), expected("reads"));
    assert_eq!(create_error(&scratch.0), expected("writes"));
}

#[test]
fn a_fifo_does_not_hang() {
    let scratch = Scratch::new();
    let path = scratch.file("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let expected = format!("{}: is a fifo; wharf reads regular files", path.display());
    assert_eq!(open_error(&path), expected);
    let expected = format!("{}: is a fifo; wharf writes regular files", path.display());
    assert_eq!(create_error(&path), expected);
}

#[test]
fn traffic_is_its_owners_and_no_link_is_followed() {
    let scratch = Scratch::new();
    let (path, link, ours) = (scratch.file("x.pcap"), scratch.file("link"), scratch.file("ours"));
    fs::write(&ours, "precious").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    PcapWriter::create(&path, PcapOptions::default()).unwrap();
    assert_eq!(mode(&path), 0o600);
    for to in [&ours, &scratch.file("nothing")] {
        std::os::unix::fs::symlink(to, &link).unwrap();
        let expected = format!("{}: is a symbolic link; wharf writes regular files", link.display());
        assert_eq!(create_error(&link), expected);
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(fs::read(&ours).unwrap(), b"precious");
    assert!(!scratch.file("nothing").exists());
    // A file that is there keeps its mode.
    let before = mode(&ours);
    PcapWriter::create(&ours, PcapOptions::default()).unwrap();
    assert_eq!(mode(&ours), before);
}

#[test]
fn a_socket_and_devices() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    assert!(open_error(&path).ends_with("is a socket; wharf reads regular files"));
    assert!(create_error(&path).ends_with("is a socket; wharf writes regular files"));
    let expected = "/dev/zero: is a character device; wharf reads regular files";
    assert_eq!(open_error(Path::new("/dev/zero")), expected);
    let writer = PcapWriter::create(Path::new("/dev/null"), PcapOptions::default());
    writer.unwrap().finish().unwrap();
}

#[test]
fn no_permission() {
    let scratch = Scratch::new();
    let path = scratch.file("x.pcap");
    fs::write(&path, Capture::new().0).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything, so there it opens.
    if let Err(error) = PcapReader::open(&path) {
        let expected = format!("{}: cannot open: Permission denied", path.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn a_name_with_line_breaks_keeps_the_message_on_one_line() {
    let message = open_error(Path::new("/no\nsuch\u{2028}\x1b[1mfile"));
    assert!(message.starts_with("/no\\nsuch\\u{2028}\\u{1b}[1mfile: cannot open: "));
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn a_full_disk_shows_at_once() {
    let expected = "/dev/full: byte 0: cannot write: No space left on device";
    assert!(create_error(Path::new("/dev/full")).starts_with(expected));
}

/// A disk with so much room, more of which can be made.
struct Disk {
    room_bytes: usize,
    bytes: Vec<u8>,
}

impl Write for &mut Disk {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let count = buf.len().min(self.room_bytes);
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room_bytes -= count;
        self.bytes.extend(&buf[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_fills_up_later_names_the_place_and_keeps_memory_bounded() {
    let mut disk = Disk { room_bytes: 100_000, bytes: Vec::new() };
    let mut writer = PcapWriter::new(&mut disk, "x.pcap", PcapOptions::default()).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for i in 0..1000 {
        match writer.write(i, [&[7; 1000][..]], 1000) {
            Ok(()) => accepted += 1,
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("x.pcap: byte 100000: cannot write: "), "{message}");
                refused += 1;
            }
        }
    }
    assert_eq!(accepted + refused, 1000);
    assert!(accepted * 1016 < 100_000 + 64 * 1024 + 1016);
    assert!(writer.finish().is_err());
    let (packets, error) = read_all(&disk.bytes);
    assert_eq!(packets.len(), (100_000 - 24) / 1016);
    let place = 24 + packets.len() * 1016;
    assert!(error.unwrap().to_string().starts_with(&format!("x.pcap: byte {place}: record")));
}

#[test]
fn what_is_gathered_is_written_when_it_is_asked_for() {
    let scratch = Scratch::new();
    let path = scratch.file("x.pcapng");
    let mut writer = PcapWriter::create_of(&path, PcapOptions::default(), "eth7").unwrap();
    let len = || std::fs::metadata(&path).unwrap().len();
    let head = len();
    for late in [false, true] {
        writer.write(1, [&[7; 61][..]], 61).unwrap();
        flush_all();
        writer.flush_late(1).unwrap();
        assert_eq!(len(), head + if late { 2 } else { 1 } * (32 + 64));
        writer.flush_late(1).unwrap();
    }
    writer.note_drops([("ring-full".to_string(), 3), ("codel".to_string(), 0)]);
    writer.finish().unwrap();
    let text = std::fs::read(&path).unwrap();
    for part in [&b"eth7"[..], b"dropped: ring-full 3", b"wharf "] {
        assert!(text.windows(part.len()).any(|bytes| bytes == part), "{}", String::from_utf8_lossy(part));
    }
    assert_eq!(parse_bytes(&text).unwrap(), 2);
}

#[test]
fn a_capture_goes_on_in_other_files_and_the_newest_stay() {
    let scratch = Scratch::new();
    for (name, rotation, numbers) in [
        ("all.pcap", "size=4k", vec![3, 3, 3, 1]),
        ("some.pcapng", "size=4k,files=2", vec![3, 1]),
        ("timed.pcap", "every=4s", vec![1, 4, 4, 1]),
    ] {
        let options =
            PcapOptions { rotation: Some(Rotation::parse(rotation).unwrap()), ..PcapOptions::default() };
        let mut writer = PcapWriter::create(&scratch.file(name), options).unwrap();
        // The first is of the time at which the file was begun, the others are of next century.
        for at in [0].into_iter().chain(4_000_000_000..4_000_000_009) {
            writer.write(at * 1_000_000_000, [&[7; 1400][..]], 1400).unwrap();
        }
        writer.finish().unwrap();
        let (stem, end) = name.split_once('.').unwrap();
        let name_of = |at: usize| if at == 0 { name.into() } else { format!("{stem}-{at}.{end}") };
        let files = (0..9).map(|at| scratch.file(&name_of(at))).filter(|path| path.exists());
        let found: Vec<usize> =
            files.map(|path| parse_bytes(&std::fs::read(path).unwrap()).unwrap()).collect();
        assert_eq!(found, numbers, "{name}");
    }
}

/// A writer that goes on in another file after 4 KiB, and a frame of 1400 bytes for it.
fn rotating(path: &Path) -> PcapWriter {
    let rotation = Some(Rotation::parse("size=4k").unwrap());
    PcapWriter::create(path, PcapOptions { rotation, ..PcapOptions::default() }).unwrap()
}

fn write(writer: &mut PcapWriter, seconds: u64) -> Result<(), PcapError> {
    writer.write(seconds * 1_000_000_000, [&[7; 1400][..]], 1400)
}

fn packets_in(path: &Path) -> usize {
    parse_bytes(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_file_that_is_read_is_never_emptied() {
    let scratch = Scratch::new();
    let [read, first] = ["out-1.pcap", "out.pcap"].map(|name| scratch.file(name));
    std::fs::write(&read, b"of others").unwrap();
    spare(&read);
    let refused = PcapWriter::create(&read, PcapOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("is a file that is read"), "{refused}");
    let mut writer = rotating(&first);
    (0..4).for_each(|at| write(&mut writer, at).unwrap());
    writer.finish().unwrap();
    assert_eq!(std::fs::read(&read).unwrap(), b"of others");
    assert_eq!([first, scratch.file("out-2.pcap")].map(|path| packets_in(&path)), [3, 1]);
}

#[test]
fn a_capture_goes_on_in_its_file_while_there_is_no_other() {
    let scratch = Scratch::new();
    let (path, next) = (scratch.file("x.pcap"), scratch.file("x-1.pcap"));
    std::fs::create_dir(&next).unwrap();
    let mut writer = rotating(&path);
    let troubles: Vec<bool> =
        (0..6).map(|at| write(&mut writer, at).map(|()| writer.take_trouble().is_some()).unwrap()).collect();
    assert_eq!(troubles, [false, false, false, true, false, false], "it is told once");
    std::fs::remove_dir(&next).unwrap();
    write(&mut writer, 7).unwrap();
    writer.finish().unwrap();
    assert_eq!([path, next].map(|path| packets_in(&path)), [6, 1]);
}

#[test]
fn a_file_that_another_program_emptied_begins_anew_and_one_that_it_writes_is_left() {
    let scratch = Scratch::new();
    let path = scratch.file("x.pcap");
    let mut ours = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    (0..3).for_each(|at| write(&mut ours, at).unwrap());
    ours.flush().unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    write(&mut ours, 3).unwrap();
    ours.flush().unwrap();
    assert_eq!(packets_in(&path), 1);
    let mut theirs = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    write(&mut ours, 4).unwrap();
    let error = ours.flush().unwrap_err().to_string();
    assert!(
        error.contains("another program has made the file shorter, or writes it, too: it has 24 bytes"),
        "{error}"
    );
    assert!(ours.finish().is_err());
    write(&mut theirs, 5).unwrap();
    theirs.finish().unwrap();
    assert_eq!(packets_in(&path), 1, "it is its own");
}
