//! Deferral of interrupts by NAPI context, by the generic netlink family `netdev` (Linux 6.13): of one queue
//! in place of an interface.

use super::netdev::{Asker, NETDEV_BYTES};
use super::{attributes, strange, word};
use std::io;

const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const NETDEV_QUEUE_TYPE_RX: u32 = 0;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_DEFER_HARD_IRQS: u16 = 5;
const NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;

/// How long a NAPI context that is polled leaves its interrupts off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// Polls without a packet after which the interrupt is on again (`napi_defer_hard_irqs`).
    pub empty_polls: u32,
    /// Time between two of them, ns (`gro_flush_timeout`).
    pub timeout_ns: u32,
}

/// The NAPI context of a receive queue.
#[derive(Debug)]
pub struct Napi {
    asker: Asker,
    id: [u8; 4],
}

impl Napi {
    /// Returns the context of receive queue `queue` of interface `index` in this network namespace.
    ///
    /// # Errors
    /// `ENOENT`, `EOPNOTSUPP` before Linux 6.8; `ENODATA` if the driver does not say.
    pub fn of_queue(index: i32, queue: u32) -> io::Result<Self> {
        let asker = Asker::new()?;
        let which = [
            (NETDEV_A_QUEUE_IFINDEX, index.to_ne_bytes()),
            (NETDEV_A_QUEUE_TYPE, NETDEV_QUEUE_TYPE_RX.to_ne_bytes()),
            (NETDEV_A_QUEUE_ID, queue.to_ne_bytes()),
        ];
        let answer = asker.ask(NETDEV_CMD_QUEUE_GET, &which)?;
        let id = attributes(&answer, asker.family, NETDEV_BYTES)?
            .find(|(number, _)| *number == NETDEV_A_QUEUE_NAPI_ID)
            .and_then(|(_, value)| word(value, 0));
        id.map(|id| Self { asker, id }).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODATA))
    }

    /// Returns its deferral.
    ///
    /// # Errors
    /// `EOPNOTSUPP` before Linux 6.13.
    pub fn deferral(&self) -> io::Result<Deferral> {
        let answer = self.asker.ask(NETDEV_CMD_NAPI_GET, &[(NETDEV_A_NAPI_ID, self.id)])?;
        deferral(&answer, self.asker.family)
    }

    /// Sets its deferral.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`; `EOPNOTSUPP` before Linux 6.13.
    pub fn defer(&self, Deferral { empty_polls, timeout_ns }: Deferral) -> io::Result<()> {
        let set = [
            (NETDEV_A_NAPI_ID, self.id),
            (NETDEV_A_NAPI_DEFER_HARD_IRQS, empty_polls.to_ne_bytes()),
            (NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, timeout_ns.to_ne_bytes()),
        ];
        match self.asker.ask(NETDEV_CMD_NAPI_SET, &set) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            answer => attributes(&answer?, self.asker.family, NETDEV_BYTES).map(drop),
        }
    }
}

/// Reads the deferral from the family's answer.
fn deferral(answer: &[u8], family: u16) -> io::Result<Deferral> {
    let (mut empty_polls, mut timeout_ns) = (None, None);
    for (attribute, value) in attributes(answer, family, NETDEV_BYTES)? {
        let number = word(value, 0).map(u32::from_ne_bytes);
        match attribute {
            NETDEV_A_NAPI_DEFER_HARD_IRQS => empty_polls = number,
            NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT => timeout_ns = number,
            _ => {}
        }
    }
    let (empty_polls, timeout_ns) = empty_polls.zip(timeout_ns).ok_or_else(strange)?;
    Ok(Deferral { empty_polls, timeout_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_answer_is_an_error_or_a_deferral() {
        let mut answer = vec![0u8; NETDEV_BYTES];
        answer[4] = 30;
        for (number, value) in
            [(NETDEV_A_NAPI_DEFER_HARD_IRQS, 2u32), (NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, 200_000)]
        {
            answer.extend(8u16.to_ne_bytes());
            answer.extend(number.to_ne_bytes());
            answer.extend(value.to_ne_bytes());
        }
        assert_eq!(deferral(&answer, 30).unwrap(), Deferral { empty_polls: 2, timeout_ns: 200_000 });
        for len in 0..answer.len() {
            assert!(deferral(&answer[..len], 30).is_err());
        }
    }
}
