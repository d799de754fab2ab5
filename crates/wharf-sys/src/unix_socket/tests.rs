//! Sockets in folders of these tests' own.

use super::*;
use crate::stream::has_ended;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

/// A folder that is removed with all in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wharf-socket-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_listener_that_accepts_none_does_not_hold_who_connects() {
    let scratch = Scratch::new("full");
    let path = scratch.file("s");
    let socket = bind(&address(&path).unwrap(), Kind::Stream, None).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let first = connect(&path, Kind::Stream).unwrap();
    assert_eq!(first.write_timeout().unwrap(), None, "what is sent may wait");
    let error = connect(&path, Kind::Stream).unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (ErrorKind::TimedOut, "its listener accepts no connections")
    );
    assert!(!is_left_over(&path, Kind::Stream));
}

#[test]
fn messages_keep_their_bounds() {
    let scratch = Scratch::new("bounds");
    let path = scratch.file("s");
    let (listener, file) = listen(&path, Kind::Seqpacket, Access::Umask).unwrap();
    let connected = || connect(&path, Kind::Seqpacket);
    let (mut near, mut far) = (connected().unwrap(), listener.accept().unwrap().0);
    near.write_all(b"one").unwrap();
    near.write_all(b"two").unwrap();
    let read = |far: &mut UnixStream| {
        let mut bytes = [0; 64];
        let count = far.read(&mut bytes).unwrap();
        bytes[..count].to_vec()
    };
    assert_eq!((read(&mut far), read(&mut far)), (b"one".to_vec(), b"two".to_vec()));
    assert_eq!(peer_unread_bytes(&near).unwrap(), 0);
    near.write_all(b"three").unwrap();
    assert!(peer_unread_bytes(&near).unwrap() > 0 && !has_ended(near.as_fd()));
    assert_eq!((read(&mut far), peer_unread_bytes(&near).unwrap()), (b"three".to_vec(), 0));
    drop(far);
    assert!(has_ended(near.as_fd()));
    let second = listen(&path, Kind::Seqpacket, Access::Umask);
    assert_eq!(second.unwrap_err().kind(), ErrorKind::AddrInUse);
    file.remove();
    assert_eq!(connected().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_path_that_is_too_long_is_refused() {
    let path = "x".repeat(108);
    assert_eq!(connect(Path::new(&path), Kind::Stream).unwrap_err().kind(), ErrorKind::InvalidInput);
    let listening = listen(Path::new(&path), Kind::Stream, Access::Umask);
    assert_eq!(listening.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_number_without_a_descriptor_is_refused() {
    assert_eq!(inherited(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
}

#[test]
fn a_socket_has_its_mode_whatever_the_umask_leaves_and_nobody_connects_before() {
    let scratch = Scratch::new("mode");
    for wanted in [0o666, 0o777, 0o600, 0o620] {
        let path = scratch.file(&format!("{wanted:o}"));
        let (_listener, file) = listen(&path, Kind::Stream, Access::Mode(wanted, None)).unwrap();
        assert_eq!(mode(&path), wanted);
        file.remove();
    }
    let path = scratch.file("private");
    let _bound = listen(&path, Kind::Stream, Access::Private).unwrap();
    assert_eq!(mode(&path), 0o600);
    // What a user sees between the two steps.
    let early = scratch.file("early");
    let _socket = bind(&address(&early).unwrap(), Kind::Stream, Some(file::UNGIVEN)).unwrap();
    assert_eq!(mode(&early), 0);
}

/// Binds a socket in `folder`, has `swap` change what is there, and gives the socket mode 666. Returns the
/// error.
fn given_after(folder: &Path, swap: impl FnOnce(&Path)) -> io::Error {
    let path = folder.join("s");
    let (opened, name) = Folder::of(&path).unwrap();
    let _socket = bind(&address(&path).unwrap(), Kind::Stream, Some(file::UNGIVEN)).unwrap();
    let file = SocketFile::new(opened, name);
    swap(&path);
    file.give(0o666, None).unwrap_err()
}

/// Puts `another` in the place of the socket.
fn replace(another: impl FnOnce(&Path)) -> impl FnOnce(&Path) {
    |path| {
        fs::remove_file(path).unwrap();
        another(path);
    }
}

#[test]
fn another_file_in_the_place_of_the_socket_keeps_its_mode() {
    let scratch = Scratch::new("swapped");
    let (victim, socket) = (scratch.file("victim"), scratch.file("socket"));
    fs::write(&victim, "secret").unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
    let folder = |name: &str| {
        fs::create_dir(scratch.file(name)).unwrap();
        scratch.file(name)
    };
    let errors = [
        given_after(&folder("a"), replace(|path| symlink(&victim, path).unwrap())),
        given_after(&folder("b"), replace(|path| fs::hard_link(&victim, path).unwrap())),
        given_after(&folder("c"), replace(|path| fs::hard_link(&socket, path).unwrap())),
        given_after(&folder("d"), replace(|path| symlink(&socket, path).unwrap())),
    ];
    for error in errors {
        assert!(error.to_string().contains("another file was put in its place"), "{error}");
    }
    let gone = given_after(&folder("e"), replace(|_| {}));
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert_eq!((mode(&victim), mode(&socket)), (0o600, 0o600));
    assert!(["a", "b", "c", "d"].iter().all(|name| scratch.file(name).join("s").symlink_metadata().is_ok()));
}

#[test]
fn a_folder_that_another_takes_the_place_of_is_not_followed() {
    let scratch = Scratch::new("folder");
    let [folder, moved, target] = ["folder", "moved", "target"].map(|name| scratch.file(name));
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&target).unwrap();
    let _other = UnixListener::bind(target.join("s")).unwrap();
    fs::set_permissions(target.join("s"), Permissions::from_mode(0o600)).unwrap();
    let path = folder.join("s");
    let (_listener, file) = listen(&path, Kind::Stream, Access::Mode(0o600, None)).unwrap();
    fs::rename(&folder, &moved).unwrap();
    symlink(&target, &folder).unwrap();
    file.remove();
    assert!(target.join("s").exists() && !moved.join("s").exists());
}

#[test]
fn the_file_of_another_listener_is_not_removed() {
    let scratch = Scratch::new("removed");
    let path = scratch.file("s");
    let (_first, file) = listen(&path, Kind::Stream, Access::Private).unwrap();
    fs::remove_file(&path).unwrap();
    let (_second, _) = listen(&path, Kind::Stream, Access::Private).unwrap();
    file.remove();
    assert!(path.exists());
}

#[test]
fn a_folder_that_others_may_write_to_is_refused_unless_it_is_sticky() {
    let scratch = Scratch::new("others");
    let path = scratch.file("s");
    let listening = |folder_mode, access| {
        fs::set_permissions(&scratch.0, Permissions::from_mode(folder_mode)).unwrap();
        let bound = listen(&path, Kind::Stream, access);
        let said = bound.map(|(_, file)| file.remove()).map_err(|error| error.to_string());
        assert!(!path.exists(), "no socket is left");
        said
    };
    let opened = Access::Mode(0o666, None);
    assert!(listening(0o777, opened).unwrap_err().contains("chmod o-w"));
    assert_eq!((listening(0o1777, opened), listening(0o755, opened)), (Ok(()), Ok(())));
    // The group of the socket, too.
    assert_eq!(listening(0o775, opened), Ok(()));
    assert_eq!((listening(0o777, Access::Private), listening(0o777, Access::Umask)), (Ok(()), Ok(())));
    if rustix::process::geteuid().is_root() {
        let opened = Access::Mode(0o660, Some(65534));
        assert!(listening(0o775, opened).unwrap_err().contains("chmod g-w"));
        assert_eq!(listening(0o1775, opened), Ok(()));
        std::os::unix::fs::chown(&scratch.0, Some(65534), None).unwrap();
        assert_eq!(listening(0o1755, opened), Ok(()), "another user's, such as the machine's own");
    }
}
