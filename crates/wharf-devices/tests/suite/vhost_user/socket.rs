//! Paths of sockets: what is replaced there, and what an error says.

use std::os::unix::net::UnixListener;
use std::path::Path;
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_testkit::Scratch;

/// The error of a device that connects to `path`, or listens there.
fn error(path: &Path, client: bool) -> String {
    let options = VhostUserOptions { client, ..VhostUserOptions::default() };
    VhostUser::open(path, options).unwrap_err().to_string()
}

#[test]
fn only_a_socket_without_listener_is_replaced() {
    let scratch = Scratch::new("replaced");
    let socket = scratch.file("socket");
    let first = UnixListener::bind(&socket).unwrap();
    let said = error(&socket, false);
    assert!(said.ends_with("another program listens there: end it, or choose another path"), "{said}");
    drop(first);
    drop(VhostUser::open(&socket, VhostUserOptions::default()).unwrap());

    let [file, directory, link] = ["file", "directory", "link"].map(|name| scratch.file(name));
    std::fs::write(&file, "precious").unwrap();
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::symlink(scratch.file("nowhere"), &link).unwrap();
    for path in [&file, &directory, &link] {
        let said = error(path, false);
        assert!(said.contains("what is there is no socket"), "{said}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    assert!(directory.is_dir() && link.is_symlink());
}

#[test]
fn unreachable_peer_gives_the_reason() {
    let scratch = Scratch::new("reached");
    let left = scratch.file("left");
    drop(UnixListener::bind(&left).unwrap());
    for path in [scratch.file("nobody"), left] {
        let said = error(&path, true);
        assert!(said.contains("no driver listens there"), "{said}");
    }
    let file = scratch.file("file");
    std::fs::write(&file, "").unwrap();
    let said = error(&file, true);
    assert!(said.contains("is no socket") && !said.contains("no driver listens there"), "{said}");
    for client in [false, true] {
        let said = error(&scratch.file("missing/socket"), client);
        assert!(said.contains("there is no directory "), "{said}");
        let said = error(&scratch.file("x".repeat(108)), client);
        assert!(said.ends_with("bytes: a socket's has 107 at most"), "{said}");
    }
}
