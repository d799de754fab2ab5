//! The HTTP server of `--metrics`: one thread, started when it is asked for.
//!
//! A client cannot hold up the run, which has no part in it, nor another client: a request has to come within
//! [`REQUEST`], an answer to be taken within [`ANSWER`]. When there are [`CLIENTS_MAX`] clients one has to
//! go: the first that has sent no request, else the first that has not taken its answer. While an answer is
//! made for each of them, the next client waits.

use super::base;
use super::endpoint::{self, Endpoint, Listener};
use super::families::Families;
use super::writer::Writer;
use crate::watch::board::Board;

use anyhow::Context;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};
use wharf_sys::unix_socket::SocketFile;

/// Time for a request to come.
const REQUEST: Duration = Duration::from_secs(3);
/// Time for an answer to be taken, with the request.
const ANSWER: Duration = Duration::from_secs(10);
/// Most clients at a time: enough that one that sends its request late is not the first yet when another one
/// connects all the time.
const CLIENTS_MAX: usize = 64;
/// Most bytes of a request: the least that hyper has.
const REQUEST_BYTES_MAX: usize = 8192;
/// Time for a poller to note its device's counters, once it is asked for them.
const NOTED: Duration = Duration::from_millis(30);
/// Time before the next attempt to accept, when descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two looks for a client that has its answer.
const NAP: Duration = Duration::from_millis(2);
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The thread of the server. It ends when this is dropped.
#[derive(Debug)]
pub(in crate::watch) struct MetricsServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    file: Option<SocketFile>,
}

impl MetricsServer {
    /// Binds `endpoint`, and serves the counters of `board` to requests for `host`, of any host without one.
    pub(in crate::watch) fn start(
        endpoint: &Endpoint, host: Option<String>, board: Board,
    ) -> anyhow::Result<Self> {
        let what = || format!("--metrics {endpoint}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.with_context(what)?;
        let (listener, file) = {
            let _entered = runtime.enter();
            endpoint::bind(endpoint).with_context(what)?
        };
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async {
                let serving = tokio::spawn(serve(listener, Served { board, host }));
                // An error is the sender's end, which is the same.
                let _ = stopped.await;
                serving.abort();
            });
        };
        let thread =
            Builder::new().name("wharf-metrics".into()).spawn(run).context("cannot start a thread")?;
        Ok(Self { stop: Some(stop), thread: Some(thread), file })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // The thread is gone only if it panicked.
        let _ = self.stop.take().map(|stop| stop.send(()));
        self.thread.take().map(JoinHandle::join);
        self.file.iter().for_each(SocketFile::remove);
    }
}

/// What is served, and to whom.
#[derive(Clone)]
struct Served {
    board: Board,
    /// The only host that requests may be for.
    host: Option<String>,
}

impl Served {
    /// True if a request is for the host, whatever its port.
    fn is_for(&self, request: &Request<Incoming>) -> bool {
        let Some(host) = &self.host else { return true };
        let asked = request.headers().get(HOST).and_then(|asked| asked.to_str().ok()).unwrap_or_default();
        let name =
            asked.rsplit_once(':').filter(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit()));
        [asked, name.map_or(asked, |(name, _)| name)].iter().any(|asked| asked.eq_ignore_ascii_case(host))
    }
}

async fn serve(listener: Listener, served: Served) {
    let mut clients = VecDeque::new();
    loop {
        make_room(&mut clients).await;
        let accepted = match &listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| start(stream, &served)),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| start(stream, &served)),
        };
        match accepted {
            Ok(client) => clients.push_back(client),
            Err(_) => sleep(PAUSE).await,
        }
        // A request that is there already is read before the next client comes.
        yield_now().await;
    }
}

/// A client, and what it has come to.
struct Client {
    task: AbortHandle,
    stage: Arc<AtomicU8>,
}

/// Stages of a client.
const SILENT: u8 = 0;
const ASKED: u8 = 1;
const ANSWERED: u8 = 2;

/// Lets a client go if there are too many, or waits for the answer to one.
async fn make_room(clients: &mut VecDeque<Client>) {
    loop {
        clients.retain(|client| !client.task.is_finished());
        if clients.len() < CLIENTS_MAX {
            return;
        }
        match first_to_go(clients.iter().map(|client| client.stage.load(Relaxed))) {
            Some(at) => clients.remove(at).into_iter().for_each(|client| client.task.abort()),
            None => sleep(NAP).await,
        }
    }
}

/// Returns the position of the client that goes first: none has to go while its answer is made.
fn first_to_go(stages: impl Iterator<Item = u8> + Clone) -> Option<usize> {
    let first = |wanted| stages.clone().position(|stage| stage == wanted);
    first(SILENT).or_else(|| first(ANSWERED))
}

/// Serves one client. One that has ended its side behind its request still has its answer.
fn start(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, served: &Served) -> Client {
    let (served, stage) = (served.clone(), Arc::new(AtomicU8::new(SILENT)));
    let staged = stage.clone();
    let service = service_fn(move |request| {
        let (served, stage) = (served.clone(), staged.clone());
        async move {
            stage.store(ASKED, Relaxed);
            let response = answer(request, &served).await;
            stage.store(ANSWERED, Relaxed);
            response
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST).keep_alive(false).half_close(true);
    let serving = server.max_buf_size(REQUEST_BYTES_MAX).serve_connection(TokioIo::new(stream), service);
    // A client that breaks off, or is too slow, has no answer.
    let serving = async { drop(timeout(ANSWER, serving).await) };
    Client { task: tokio::spawn(serving).abort_handle(), stage }
}

async fn answer(request: Request<Incoming>, served: &Served) -> Result<Response<String>, Infallible> {
    let reading = matches!(*request.method(), Method::GET | Method::HEAD);
    Ok(match request.uri().path() {
        _ if !served.is_for(&request) => plain(StatusCode::MISDIRECTED_REQUEST, "no host of this run\n"),
        _ if !reading => {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "want GET\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        }
        "/metrics" => {
            // `curl` accepts anything, which `promtool` is to read.
            let accepts = request.headers().get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
            let is_classic = accepts.is_some_and(|accepts| !accepts.contains("openmetrics"));
            let text = metrics(&served.board, is_classic).await;
            let mut response = plain(StatusCode::OK, &text);
            let content = if is_classic { CLASSIC } else { OPENMETRICS };
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content));
            response
        }
        _ => plain(StatusCode::NOT_FOUND, "the counters are at /metrics\n"),
    })
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(text.to_string());
    *response.status_mut() = status;
    response
}

/// Returns the counters. A first walk has the pollers of receive queues note those of their devices.
async fn metrics(board: &Board, is_classic: bool) -> String {
    if board.ask_devices() {
        sleep(NOTED).await;
    }
    let mut all = Writer::new(is_classic);
    Families::of(board).write(&mut all);
    base::add(&mut all, board);
    all.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_a_request_goes_first_and_none_whose_answer_is_made() {
        for (stages, first) in [
            (&[ASKED, ANSWERED, SILENT, SILENT][..], Some(2)),
            (&[ANSWERED, ASKED, ANSWERED], Some(0)),
            (&[ASKED, ASKED], None),
            (&[], None),
        ] {
            assert_eq!(first_to_go(stages.iter().copied()), first, "{stages:?}");
        }
    }
}
