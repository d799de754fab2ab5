//! Paths of sockets: what is replaced there, and what an error says.

use super::peer::Peer;
use super::rig::until;
use std::fs::Permissions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use wharf_core::device::RxDevice;
use wharf_devices::open::{Direction, open};
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_devices::virtio::feature;
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

#[test]
fn a_socket_that_the_process_was_started_with_is_taken_by_its_number() {
    let scratch = Scratch::new("inherited");
    let listener = UnixListener::bind(scratch.file("socket")).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    for (socket, peer) in
        [(listener.as_raw_fd(), Peer::connect(&scratch.file("socket"))), (theirs.as_raw_fd(), Peer::of(ours))]
    {
        let path = format!("fd={socket}");
        let device = VhostUser::open(Path::new(&path), VhostUserOptions::default()).unwrap();
        let mut peer = peer;
        peer.negotiate(feature::PACKED);
        assert!(peer.share(), "{path}");
        drop(device);
    }
    assert!(scratch.file("socket").exists(), "it is not the device's");
    let file = std::fs::File::open("/dev/null").unwrap();
    let said = error(Path::new(&format!("fd={}", file.as_raw_fd())), false);
    assert!(said.contains("non-socket"), "{said}");
    let said = error(Path::new("fd=99999"), false);
    assert!(said.contains("Bad file descriptor"), "{said}");
}

#[test]
fn a_device_that_was_started_with_its_connection_ends_with_it() {
    let scratch = Scratch::new("one");
    let listener = UnixListener::bind(scratch.file("socket")).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    for (socket, peer, ends) in [
        (listener.as_raw_fd(), Peer::connect(&scratch.file("socket")), false),
        (theirs.as_raw_fd(), Peer::of(ours), true),
    ] {
        let options = VhostUserOptions::default();
        let device = VhostUser::open(Path::new(&format!("fd={socket}")), options).unwrap();
        let mut peer = peer;
        peer.negotiate(feature::PACKED);
        assert!(!device.ended());
        drop(peer);
        if ends {
            until(|| device.ended());
        }
        assert_eq!(device.ended(), ends);
    }
}

/// Mode and group of the socket of a device with these options.
fn access(options: &str) -> Result<(u32, u32), String> {
    let scratch = Scratch::new("access");
    let spec = format!("vhost-user:{}{options}", scratch.path().display());
    let opened = open(&spec, Direction::Both).map_err(|error| error.to_string());
    let there = std::fs::metadata(scratch.path());
    let device = opened.inspect_err(|_| assert!(there.is_err(), "{options}: no socket is left"))?;
    let there = there.unwrap();
    drop(device);
    Ok((there.permissions().mode() & 0o777, there.gid()))
}

#[test]
fn socket_has_the_mode_and_group_that_were_asked_for() {
    let own = std::fs::metadata("/proc/self").unwrap();
    let (_, usual) = access("").unwrap();
    assert_eq!(access(",mode=600"), Ok((0o600, usual)));
    assert_eq!(access(",mode=0777"), Ok((0o777, usual)));
    // Only root may give away files.
    let group = if own.uid() == 0 { 65534 } else { own.gid() };
    assert_eq!(access(&format!(",group={group}")), Ok((0o660, group)));
    assert_eq!(access(&format!(",group={group},mode=620")), Ok((0o620, group)));
    if own.uid() == 0 {
        assert_eq!(access(",group=root"), Ok((0o660, 0)));
    }
    for (options, says) in [
        (",mode=888", "mode: \"888\" is no mode: 0 to 777, octal"),
        (",mode=7777", "mode: \"7777\" is no mode"),
        (",mode=u+w", "mode: \"u+w\" is no mode"),
        (",group=no-such-group", "group: \"no-such-group\" is no group of /etc/group and no number"),
        (",client=on,mode=600", "mode, group: with client=on the socket is the driver's"),
    ] {
        let said = access(options).unwrap_err();
        assert!(said.contains(says), "{options}: {said}");
    }
}

#[test]
fn folder_where_any_user_may_replace_the_socket_is_refused_for_a_mode_or_a_group() {
    let scratch = Scratch::new("open-folder");
    std::fs::create_dir(scratch.path()).unwrap();
    let set = |mode| std::fs::set_permissions(scratch.path(), Permissions::from_mode(mode)).unwrap();
    let path = scratch.path().join("socket");
    let opened = |options: &str| {
        let spec = format!("vhost-user:{}{options}", path.display());
        open(&spec, Direction::Both).map(drop).map_err(|error| error.to_string())
    };
    set(0o777);
    for options in [",mode=666", ",mode=600", ",group=0"] {
        let said = opened(options).unwrap_err();
        assert!(said.contains("any user may put another file in its place") && !path.exists(), "{said}");
    }
    assert_eq!(opened(""), Ok(()));
    set(0o1777);
    assert_eq!((opened(",mode=666"), path.exists()), (Ok(()), false));
}
