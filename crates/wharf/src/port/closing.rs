//! The end of a port: closed by a call, or with its last handle.

use super::giving_back::GIVING_BACK_MAX;
use super::receiving::{self, Source};
use super::{Host, Inner, Port, Serving};
use atomic_waker::AtomicWaker;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use wharf_core::host::outlive;
use wharf_core::pool::Audit;
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;

impl Port {
    /// Closes the port: senders get [`SendError::Closed`](crate::SendError::Closed). Packets inside are
    /// sent for up to `wait`, the others return to the pool; those that the device has stay with it.
    /// Returns the holders of the pool's frames. A port that is dropped without this returns what has not
    /// left at once.
    ///
    /// The device is free to be opened again, whatever clones, senders, receivers and events of the port
    /// live: their calls say that the queue is shut down, once a receiver has taken what came before. `udp`
    /// takes up to 4 s more, to hear of a neighbour that does not answer.
    ///
    /// It waits for the end of a handler that runs ([`Port::on_receive`]): a handler must not call it. It
    /// waits for up to 5 s for another thread that drops a receiver just then, or opens the device again, and
    /// has it.
    pub fn close(&self, wait: impl Into<Wait>) -> Audit {
        if let Some(queue) = &self.inner.queue {
            queue.shutdown(wait);
        }
        let mut parts = self.parts();
        let source = std::mem::replace(&mut parts.source, Source::Closed);
        let (receiving, poller) = (parts.receiving.take(), self.inner.pollers.leave(self.inner.number));
        parts.leaving.extend(receiving.map(|receiving| receiving.queue));
        let leaving = parts.leaving.clone();
        // The packets on their way to another end that is not in use are this port's again.
        parts.far_end = None;
        drop(parts);
        for queue in leaving {
            // The device's error, at its end, changes nothing for the caller.
            let _ = queue.close();
            self.parts().count_last(&queue);
        }
        drop(poller);
        receiving::close_kept(&self.inner.receiving_pool, source);
        self.inner.giving_back.wait();
        self.inner.monitor.reopener().inspect(|reopener| reopener.wait_closed(GIVING_BACK_MAX));
        self.inner.monitor.close();
        self.inner.queue.as_ref().map_or_else(|| self.inner.pool.audit(), TxQueue::audit)
    }

    /// Works like [`Port::close`], for a task: a thread of its own closes the port.
    ///
    /// # Cancel safety
    /// The port is closed all the same if the future is dropped after its first poll.
    pub async fn close_async(&self, wait: impl Into<Wait>) -> Audit {
        let (port, wait) = (self.clone(), wait.into());
        // A handler's drop may panic.
        apart("wharf-close", move || port.close(wait)).await.unwrap_or_else(|| self.pool().audit())
    }

    /// Waits up to `wait` until all packets sent so far have left. Returns true if they have.
    pub fn drain(&self, wait: impl Into<Wait>) -> bool {
        self.inner.queue.as_ref().is_none_or(|queue| queue.drain(wait))
    }

    /// Works like [`Port::drain`], for a task: a thread of its own waits.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. The thread waits on until then, and has a handle of the port.
    pub async fn drain_async(&self, wait: impl Into<Wait>) -> bool {
        let (port, wait) = (self.clone(), wait.into());
        // Where that panics, nobody knows.
        apart("wharf-drain", move || port.drain(wait)).await.unwrap_or(false)
    }
}

/// Runs `work` on a thread of this name, and waits for it as a task. Returns `None` if it panicked.
async fn apart<T: Send + 'static>(name: &str, work: impl Fn() -> T + Send + Sync + 'static) -> Option<T> {
    let shared = Arc::new((work, AtomicWaker::new(), Mutex::new(None)));
    let own = shared.clone();
    let run = move || {
        let (work, waker, done) = &*own;
        let value = outlive(work);
        *wharf_mem::lock(done) = Some(value);
        waker.wake();
    };
    if std::thread::Builder::new().name(name.into()).spawn(run).is_err() {
        return outlive(&shared.0);
    }
    poll_fn(move |context| {
        shared.1.register(context.waker());
        wharf_mem::lock(&shared.2).take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.monitor.close();
        let mut parts = wharf_mem::lock(&self.parts);
        let (poller, receiving) = (self.pollers.leave(self.number), parts.receiving.take());
        let source = std::mem::replace(&mut parts.source, Source::Closed);
        let far_end = parts.far_end.take();
        drop(parts);
        if poller.is_none() && receiving.is_none() {
            return receiving::close_kept(&self.receiving_pool, source);
        }
        let (pool, queue) = (self.receiving_pool.clone(), self.queue.clone());
        // The other end of a wire gives packets back to this end, which must still be there: it goes first.
        let is_at_once = self.is_far_end || matches!(self.host, Host::World(_));
        // A handler that has dropped the last handle ends with its queue: it cannot wait for its own end.
        let is_own_end = is_at_once && poller.as_ref().is_some_and(Serving::runs_caller);
        let close = move || {
            drop(poller);
            let closed = receiving.iter().filter(|_| !is_own_end);
            closed.for_each(|receiving| _ = receiving.queue.close());
            receiving::close_kept(&pool, source);
            drop((queue, far_end));
        };
        if is_at_once {
            return close();
        }
        // Without a thread, the closure is dropped here, and closes by the drops of what it has.
        _ = std::thread::Builder::new().name("wharf-close".into()).spawn(close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::thread;
    use std::time::{Duration, Instant};

    fn wait_for<T: Send + 'static>(work: impl Fn() -> T + Send + Sync + 'static) -> Option<T> {
        let (mut task, began) = (pin!(apart("wharf-drain", work)), Instant::now());
        while began.elapsed() < Duration::from_secs(60) {
            if let Poll::Ready(value) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return value;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("it waits for ever");
    }

    #[test]
    fn a_thread_apart_ends_its_task_also_by_a_panic() {
        let name = wait_for(|| thread::current().name().map(String::from));
        assert_eq!(name.flatten().as_deref(), Some("wharf-drain"));
        assert_eq!(wait_for(|| -> bool { panic!("the test's work") }), None);
    }
}
