//! A process that may have no more file descriptors.

use super::rig::Rig;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_sys::stream::peek;

/// `EMFILE`
const TOO_MANY_OPEN_FILES: i32 = 24;

/// A word in the environment of a process that may have 64 descriptors.
const ALONE: &str = "WHARF_TEST_DESCRIPTORS";

/// True if this process may have few descriptors and runs no other test. Otherwise runs the calling test, `name`,
/// again in a process of its own.
fn is_alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let run = format!("ulimit -n 64 && exec \"$0\" --exact vhost_user::descriptors::{name}");
    let mut again = Command::new("sh");
    let ran =
        again.args(["-c", &run]).arg(std::env::current_exe().unwrap()).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// All descriptors that there may be still.
fn all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn message_is_not_said_to_have_too_many_descriptors_if_this_process_is_full() {
    if !is_alone("message_is_not_said_to_have_too_many_descriptors_if_this_process_is_full") {
        return;
    }
    let (near, far) = UnixStream::pair().unwrap();
    far.send_with_fds(&[&b"x"[..]], &[far.as_raw_fd()]).unwrap();
    let all = all();
    let error = peek(near.as_fd(), &mut [0]).unwrap_err();
    drop(all);
    assert_eq!(error.raw_os_error(), Some(TOO_MANY_OPEN_FILES), "{error}");
    assert_eq!(peek(near.as_fd(), &mut [0]).unwrap(), Some(1), "it is still there");
}

#[test]
fn connection_without_descriptor_is_reported_and_taken_later() {
    if !is_alone("connection_without_descriptor_is_reported_and_taken_later") {
        return;
    }
    let mut rig = Rig::new("none-left", 1);
    // A thread that starts opens and closes files of its C library. After one whole connection it holds none that it
    // would close later, so all that are left are this test's.
    end_by_request(&UnixStream::connect(rig.socket.path()).unwrap());
    let error = rig.error();
    assert!(error.contains("the connection is closed: message of request"), "{error}");
    let mut all = all();
    all.pop();
    let waiting = UnixStream::connect(rig.socket.path()).unwrap();
    let error = rig.error();
    assert!(error.contains("cannot take a connection, which waits: Too many open files"), "{error}");
    drop(all);
    // The device takes the connection.
    end_by_request(&waiting);
}

/// Sends a request flagged as an answer, and waits until the device has closed the connection.
fn end_by_request(mut stream: &UnixStream) {
    stream.write_all(&[u32::MAX, 5, 0].map(u32::to_ne_bytes).concat()).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}
