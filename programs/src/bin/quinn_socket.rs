//! QUIC over Wharf: quinn's abstract socket for the client, the kernel's socket for the server. `quinn_socket BYTES`:
//! the client sends them by `udp:`, the server echoes them, and they are compared. The same between two hosts, past the client's kernel and by
//! its routes: `quinn_socket serve ADDRESS:PORT CERTIFICATE`, and `quinn_socket BYTES INTERFACE ADDRESS:PORT CERTIFICATE`, by `xdp`.
//!
//! - `try_send` writes a datagram with its headers into a packet; a full queue is `WouldBlock`.
//! - `poll_writable` is `Ready::poll_ready`, of a handle for each connection: room, and memory.
//! - `poll_recv` is `Receiver::poll_recv`.

use quinn::rustls::pki_types::CertificateDer;
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
use wharf::{Burst, Direction, Packet, PagePool, Port, Receiver, Sender, Wait};
use wharf_route::{Fate, HEADROOM_BYTES, Reason, RouteSender, Router};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The UDP port of a client by `xdp`, which takes nothing else away from its host.
const CLIENT_PORT: u16 = 40000;

/// The way of datagrams: whole frames into a port, or to the kernel's next hop.
#[derive(Debug)]
enum Way {
    Frames(Sender),
    /// The sender says when there is room.
    Routed(RouteSender, Sender),
}

/// A path of Wharf as quinn wants it.
#[derive(Debug)]
struct WharfSocket {
    local: SocketAddr,
    sender: Mutex<Way>,
    /// The receiver, and what it has received.
    receiver: Mutex<(Receiver, Burst)>,
}

impl WharfSocket {
    fn open(address: IpAddr) -> Result<(Arc<Self>, Port), Error> {
        let path = Port::open(&format!("udp:{address}:0,dest=frame"), Direction::Both)?;
        let local = path.name().trim_start_matches("udp:").parse()?;
        let way = Way::Frames(path.sender("quinn")?);
        Self::over(local, way, path)
    }

    fn open_routed(interface: &str) -> Result<(Arc<Self>, Port), Error> {
        let pool = PagePool::builder().frame_bytes(4096).headroom_bytes(HEADROOM_BYTES).build()?;
        let path = Port::builder(&format!("xdp:{interface},steer=udp:{CLIENT_PORT}"), Direction::Both);
        let path = path.pool(&pool).build()?;
        let router = Router::new([(interface, path.clone())])?;
        let way = Way::Routed(router.sender("quinn")?, path.sender("room")?);
        Self::over((Ipv4Addr::UNSPECIFIED, CLIENT_PORT).into(), way, path)
    }

    fn over(local: SocketAddr, way: Way, path: Port) -> Result<(Arc<Self>, Port), Error> {
        let receiver = Mutex::new((path.served_receiver()?, path.burst(64)));
        Ok((Arc::new(Self { local, sender: Mutex::new(way), receiver }), path))
    }
}

impl AsyncUdpSocket for WharfSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable(match &*lock(&self.sender) {
            Way::Frames(sender) | Way::Routed(_, sender) => sender.ready(),
        }))
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        let (to, len) = (transmit.destination, transmit.contents.len() as u32);
        let copied = |packet: Result<Packet, _>| {
            let mut packet = packet.map_err(|_| ErrorKind::WouldBlock)?;
            packet.bytes_mut().copy_from_slice(transmit.contents);
            io::Result::Ok(packet)
        };
        let sent = match &mut *lock(&self.sender) {
            Way::Frames(sender) => {
                let headers = UdpHeaders::between(self.local, to).ok_or(ErrorKind::InvalidInput)?;
                let mut packet = copied(sender.packet(len, Wait::Never))?;
                headers.put(&mut packet).map_err(|_| ErrorKind::InvalidInput)?;
                sender.send_packet(packet, Wait::Never).map(|sent| sent.accepted > 0)
            }
            Way::Routed(router, _) => {
                let packet = copied(router.packet(len, Wait::Never))?;
                let fate = router.send_datagram(packet, self.local, to, Wait::Never);
                router.flush_or_drop(Wait::Never);
                fate.map(|fate| fate != Fate::Dropped(Reason::Full))
            }
        };
        if sent.map_err(io::Error::other)? { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (bytes, server_address, serving, client_config, (socket, path)) = match arguments[..] {
        ["serve", address, certificate] => {
            let (server, der, _) = server(address.parse()?)?;
            std::fs::write(certificate, der)?;
            println!("listening at {address}");
            return echo(server).await;
        }
        [bytes, interface, address, certificate] => {
            let config = client_config(std::fs::read(certificate)?.into())?;
            let nothing = tokio::spawn(async { Ok(()) });
            (bytes, address.parse()?, nothing, config, WharfSocket::open_routed(interface)?)
        }
        [bytes] => {
            let (server, _, config) = server((localhost, 0).into())?;
            let serving = tokio::spawn(echo(server.clone()));
            (bytes, server.local_addr()?, serving, config, WharfSocket::open(localhost)?)
        }
        _ => return Err("usage: quinn_socket BYTES".into()),
    };
    let bytes: usize = bytes.parse()?;

    let mut client =
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    client.set_default_client_config(client_config);
    tokio::time::timeout(Duration::from_secs(30), transfer(&client, server_address, bytes)).await??;
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

/// Starts a server with a certificate of its own, and returns that, and what a client needs to trust it.
fn server(address: SocketAddr) -> Result<(Endpoint, Vec<u8>, ClientConfig), Error> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    let (certificate, key) = (certified.cert.der().clone(), certified.signing_key.serialize_der());
    let key = quinn::rustls::pki_types::PrivatePkcs8KeyDer::from(key);
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    Ok((Endpoint::server(config, address)?, certificate.to_vec(), client_config(certificate)?))
}

/// Returns the configuration of a client that trusts a certificate.
fn client_config(certificate: CertificateDer<'static>) -> Result<ClientConfig, Error> {
    let mut roots = quinn::rustls::RootCertStore::empty();
    roots.add(certificate)?;
    Ok(ClientConfig::with_root_certificates(Arc::new(roots))?)
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
