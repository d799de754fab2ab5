//! QUIC over Wharf: quinn's abstract socket for the client, the kernel's socket for the server. `quinn_socket BYTES`:
//! the client sends them by `udp:`, the server echoes them, and they are compared.
//!
//! - `try_send` writes a datagram with its headers into a packet; a full queue is `WouldBlock`.
//! - `poll_writable` is `Ready::poll_ready`, of a handle for each connection: room, and memory.
//! - `poll_recv` is `Receiver::poll_recv`.

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, UdpPoller};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use wharf::net::UdpHeaders;
use wharf::queue::Ready;
use wharf::{Burst, Direction, Packet, Port, Receiver, Sender, Wait};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A path of Wharf as quinn wants it.
#[derive(Debug)]
struct WharfSocket {
    local: SocketAddr,
    sender: Mutex<Sender>,
    /// The receiver, and what it has received.
    receiver: Mutex<(Receiver, Burst)>,
}

impl WharfSocket {
    fn open(address: IpAddr) -> Result<(Arc<Self>, Port), Error> {
        let path = Port::open(&format!("udp:{address}:0,dest=frame"), Direction::Both)?;
        let local = path.name().trim_start_matches("udp:").parse()?;
        let sender = Mutex::new(path.sender("quinn")?);
        let receiver = Mutex::new((path.served_receiver()?, path.burst(64)));
        Ok((Arc::new(Self { local, sender, receiver }), path))
    }
}

impl AsyncUdpSocket for WharfSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable(lock(&self.sender).ready()))
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        let mut sender = lock(&self.sender);
        let headers = UdpHeaders::between(self.local, transmit.destination).ok_or(ErrorKind::InvalidInput)?;
        let len = transmit.contents.len() as u32;
        let mut packet = sender.packet(len, Wait::Never).map_err(|_| ErrorKind::WouldBlock)?;
        packet.bytes_mut().copy_from_slice(transmit.contents);
        headers.put(&mut packet).map_err(|_| ErrorKind::InvalidInput)?;
        match sender.send_packet(packet, Wait::Never).map_err(io::Error::other)?.accepted {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    fn poll_recv(
        &self, context: &mut Context, buffers: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let (receiver, arrived) = &mut *lock(&self.receiver);
        if arrived.is_empty() {
            ready!(receiver.poll_recv(context, arrived)).map_err(io::Error::other)?;
        }
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(metas) {
            let Some(datagram) = arrived.pop().and_then(|packet| take(&packet, buffer)) else { break };
            (*meta, count) = (datagram, count + 1);
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

#[derive(Debug)]
struct Writable(Ready);

impl UdpPoller for Writable {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        self.0.poll_ready(context).map(Ok)
    }
}

/// Copies the datagram in `packet` to `buffer`.
fn take(packet: &Packet, buffer: &mut [u8]) -> Option<RecvMeta> {
    let datagram = packet.datagram()?;
    let (addr, len) = (datagram.source, datagram.payload.len());
    buffer.get_mut(..len)?.copy_from_slice(datagram.payload);
    Some(RecvMeta { addr, len, stride: len, ecn: None, dst_ip: None })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let bytes: usize = std::env::args().nth(1).ok_or("usage: quinn_socket BYTES")?.parse()?;
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (server, client_config) = server((localhost, 0).into())?;
    let serving = tokio::spawn(echo(server.clone()));

    let (socket, path) = WharfSocket::open(localhost)?;
    let mut client =
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    client.set_default_client_config(client_config);
    tokio::time::timeout(Duration::from_secs(30), transfer(&client, server.local_addr()?, bytes)).await??;
    drop(client);
    serving.await??;

    let audit = path.close(Duration::from_secs(1));
    let counters = path.queue()?.counters();
    println!(
        "{bytes} bytes there and back; {} datagrams sent, {} failed",
        counters.sent.get(),
        counters.failed.get()
    );
    if counters.failed.get() > 0 { Err(audit.to_string().into()) } else { Ok(()) }
}

/// Starts a server with a certificate of its own, and returns what a client needs to trust it.
fn server(address: SocketAddr) -> Result<(Endpoint, ClientConfig), Error> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    let (certificate, key) = (certified.cert.der().clone(), certified.signing_key.serialize_der());
    let key = quinn::rustls::pki_types::PrivatePkcs8KeyDer::from(key);
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    let mut roots = quinn::rustls::RootCertStore::empty();
    roots.add(certificate)?;
    Ok((Endpoint::server(config, address)?, ClientConfig::with_root_certificates(Arc::new(roots))?))
}

/// Echoes one stream of one connection.
async fn echo(server: Endpoint) -> Result<(), Error> {
    let connection = server.accept().await.ok_or("no connection")?.await?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    while let Some(chunk) = receive.read_chunk(64 << 10, true).await? {
        send.write_chunk(chunk.bytes).await?;
    }
    send.finish()?;
    connection.closed().await;
    Ok(())
}

/// Sends `bytes` bytes to the server at `address` and compares what comes back.
async fn transfer(client: &Endpoint, address: SocketAddr, bytes: usize) -> Result<(), Error> {
    let connection = client.connect(address, "localhost")?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    let content: Vec<u8> = (0..bytes).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    let back = tokio::spawn(async move { receive.read_to_end(bytes).await });
    send.write_all(&content).await?;
    send.finish()?;
    if back.await?? != content {
        return Err("other bytes came back".into());
    }
    connection.close(0u8.into(), b"done");
    client.wait_idle().await;
    Ok(())
}
