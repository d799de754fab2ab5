//! Measures the rate at which quinn-udp sends datagrams. Each message has as many segments as quinn-udp allows, each
//! written anew, as a QUIC stack writes its packets. Usage: quinn_udp_probe ADDRESS:PORT PAYLOAD_BYTES SECONDS
//! Prints one line: Mpps and seconds of processor time per million datagrams.

use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Most payload bytes of a datagram over IPv4.
const MESSAGE_MAX: usize = 65_507;
/// Messages between two looks at the clock.
const CALLS: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, to, bytes, seconds] = &arguments[..] else {
        eprintln!("usage: quinn_udp_probe ADDRESS:PORT PAYLOAD_BYTES SECONDS");
        std::process::exit(2);
    };
    let destination: SocketAddr = to.parse().expect("an address");
    let bytes: usize = bytes.parse().expect("bytes");
    let time = Duration::from_secs_f64(seconds.parse().expect("seconds"));
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let state = UdpSocketState::new(UdpSockRef::from(&socket)).expect("its state");
    let count = state.max_gso_segments().min(MESSAGE_MAX / bytes);
    let template = vec![7; bytes];
    let mut contents = vec![0; count * bytes];
    let (began, mut sent) = (Instant::now(), 0u64);
    while began.elapsed() < time {
        for _ in 0..CALLS {
            for (at, datagram) in contents.chunks_exact_mut(bytes).enumerate() {
                datagram.copy_from_slice(&template);
                datagram[..8].copy_from_slice(&(sent + at as u64).to_be_bytes());
            }
            let transmit = Transmit {
                destination,
                ecn: None,
                contents: &contents,
                segment_size: Some(bytes),
                src_ip: None,
            };
            match state.try_send(UdpSockRef::from(&socket), &transmit) {
                Ok(()) => sent += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    let (rate, cpu) = (sent as f64 / began.elapsed().as_secs_f64() / 1e6, processor_seconds());
    println!("{rate:.3} Mpps {:.3} cpu seconds per million, {count} segments", cpu / sent as f64 * 1e6);
}

/// User and system time of this process: proc_pid_stat(5), in ticks of 10 ms.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let field = |at: usize| behind_name.split_whitespace().nth(at).and_then(|text| text.parse::<f64>().ok());
    (field(11).unwrap_or(0.0) + field(12).unwrap_or(0.0)) / 100.0
}
