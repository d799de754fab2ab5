//! Real questions by real sockets.

use super::{Server, message};
use std::net::UdpSocket;
use std::time::Duration;

const A: u16 = 1;
const AAAA: u16 = 28;

fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    // Recursion desired, one question.
    let mut bytes = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The expected answer: the question, and an address if there is one.
fn right(question: &[u8], code: u8, address: Option<u8>) -> Vec<u8> {
    let mut bytes = question.to_vec();
    (bytes[2], bytes[3], bytes[7]) = (0x85, code, u8::from(address.is_some()));
    if let Some(last) = address {
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
    }
    bytes
}

/// Starts a server at `host`, and connects a socket to it.
fn server(host: &str) -> (Server, UdpSocket) {
    let port = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap().port();
    let shown = if host.contains(':') { format!("[{host}]") } else { host.into() };
    let server = Server::start(&format!("{shown}:{port}")).unwrap();
    (server, client(host, port))
}

fn client(host: &str, port: u16) -> UdpSocket {
    let client = UdpSocket::bind((host, 0)).unwrap();
    client.connect((host, port)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

fn next(client: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let len = client.recv(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

#[test]
fn questions_get_the_right_answers() {
    for host in ["127.0.0.1", "::1"] {
        let (_server, client) = server(host);
        let cases = [
            ("one.wharf.test", A, 0, Some(1)),
            ("NINE.Wharf.TEST", A, 0, Some(9)),
            ("one.wharf.test", AAAA, 0, None),
            ("wharf.test", AAAA, 0, None),
            ("ten.wharf.test", A, 3, None),
            ("a.one.wharf.test", A, 3, None),
            ("one.example.test", A, 5, None),
            ("test", A, 5, None),
        ];
        for (id, (name, kind, code, address)) in (7..).zip(cases) {
            let asked = question(id, name, kind);
            client.send(&asked).unwrap();
            assert_eq!(next(&client), right(&asked, code, address), "{name}");
        }
        // The answer leaves out bytes behind the question, such as dig's options.
        let asked = question(1, "six.wharf.test", A);
        let mut more = [&asked[..], &[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]].concat();
        more[11] = 1;
        client.send(&more).unwrap();
        assert_eq!(next(&client), right(&asked, 0, Some(6)));
    }
}

#[test]
fn non_question_gets_an_error_or_nothing() {
    let (_server, client) = server("127.0.0.1");
    let asked = question(1, "one.wharf.test", A);
    // An answer; too short for a header; nothing.
    client.send(&right(&asked, 0, Some(1))).unwrap();
    client.send(&asked[..11]).unwrap();
    client.send(&[]).unwrap();
    // Longer than the memory of a frame, as no question is.
    client.send(&[0; 3000]).unwrap();
    for len in [12, 13, 20, asked.len() - 1] {
        client.send(&asked[..len]).unwrap();
        assert_eq!(next(&client), [0, 1, 0x85, 1, 0, 0, 0, 0, 0, 0, 0, 0], "{len} bytes: a format error");
    }
    let mut other = asked.clone();
    other[2] = 0x28;
    client.send(&other).unwrap();
    assert_eq!(next(&client)[2..4], [0xac, 4], "not implemented");
    client.send(&asked).unwrap();
    assert_eq!(next(&client), right(&asked, 0, Some(1)), "it goes on");
}

#[test]
fn many_ask_at_once_and_each_gets_its_own() {
    let (_server, first) = server("127.0.0.1");
    let port = first.peer_addr().unwrap().port();
    let clients: Vec<UdpSocket> = (0..20).map(|_| client("127.0.0.1", port)).collect();
    let names = ["one", "two", "three", "four", "five"];
    for round in 0..20u16 {
        let asked = |at: usize| {
            let number = (at + usize::from(round)) % names.len();
            let asked = question(round * 100 + at as u16, &format!("{}.wharf.test", names[number]), A);
            (right(&asked, 0, Some(number as u8 + 1)), asked)
        };
        for (at, client) in clients.iter().enumerate() {
            client.send(&asked(at).1).unwrap();
        }
        for (at, client) in clients.iter().enumerate() {
            assert_eq!(next(client), asked(at).0, "client {at}, round {round}");
        }
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let asked = question(1, "one.wharf.test", A);
    for at in 0..asked.len() {
        for byte in [0, 1, 63, 64, 0x80, 0xc0, 0xff] {
            let mut changed = asked.clone();
            changed[at] = byte;
            for len in 0..=changed.len() {
                let mut message = changed.clone();
                message.resize(len + message::RECORD_BYTES, 0);
                let answered = message::answer(&mut message, len);
                assert!(answered.is_none_or(|bytes| bytes <= message.len()));
            }
        }
    }
}
