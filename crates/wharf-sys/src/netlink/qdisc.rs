//! The queue of an interface in the host's network stack: `tc -s qdisc show dev NAME`.

use super::dump::dump;
use super::{HEADER_BYTES, Netlink, half, nested, word};
use crate::call::text;
use std::io;

/// Bytes of `struct tcmsg` (linux/rtnetlink.h), and offsets in it.
const MESSAGE_BYTES: usize = 20;
const INTERFACE_AT: usize = 4;
const PARENT_AT: usize = 12;
/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;
// linux/rtnetlink.h and linux/gen_stats.h.
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// The counts of an interface's root discipline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootQdisc {
    /// Its kind, such as `fq_codel`, `htb` or `noqueue`.
    pub kind: String,
    /// Packets that it has handed to the driver.
    pub sent_packets: u64,
    /// Packets that wait in it now.
    pub backlog_packets: u64,
    /// Packets that it has dropped.
    pub dropped_packets: u64,
}

impl Netlink {
    /// Returns the counts of the root discipline of interface `index`, if it has one.
    ///
    /// # Errors
    /// The kernel's; `EINTR` if disciplines have changed meanwhile.
    pub fn root_qdisc(index: i32) -> io::Result<Option<RootQdisc>> {
        let (mut body, mut found) = ([0; MESSAGE_BYTES], None);
        body[INTERFACE_AT..INTERFACE_AT + 4].copy_from_slice(&index.to_ne_bytes());
        dump(libc::RTM_GETQDISC, &body, &mut |message| {
            found = found.take().or_else(|| root_of(message, index))
        })?;
        Ok(found)
    }
}

/// Returns the counts if the message is about the root discipline of interface `index`.
fn root_of(message: &[u8], index: i32) -> Option<RootQdisc> {
    let is_it = half(message, 4) == Some(libc::RTM_NEWQDISC)
        && word(message, HEADER_BYTES + INTERFACE_AT)? == index.to_ne_bytes()
        && word(message, HEADER_BYTES + PARENT_AT)? == ROOT.to_ne_bytes();
    let mut found = is_it.then(RootQdisc::default)?;
    for (attribute, value) in nested(message.get(HEADER_BYTES + MESSAGE_BYTES..)?) {
        match attribute {
            TCA_KIND => found.kind = text(value),
            TCA_STATS2 => nested(value).for_each(|(attribute, value)| {
                let number = |at| word(value, at).map_or(0, u32::from_ne_bytes).into();
                match attribute {
                    // Bytes are before packets, and packets are modulo 2^32.
                    TCA_STATS_BASIC => found.sent_packets = number(8),
                    TCA_STATS_QUEUE => {
                        (found.backlog_packets, found.dropped_packets) = (number(0), number(8))
                    }
                    _ => {}
                }
            }),
            _ => {}
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(number: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), number.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(index: i32, parent: u32) -> Vec<u8> {
        let queue: Vec<u8> = [3u32, 300, 7, 0, 0].iter().flat_map(|number| number.to_ne_bytes()).collect();
        let basic = [&1000u64.to_ne_bytes()[..], &10u32.to_ne_bytes(), &[0; 4]].concat();
        let stats = [attribute(TCA_STATS_BASIC, &basic), attribute(TCA_STATS_QUEUE, &queue)].concat();
        let mut bytes = vec![0; HEADER_BYTES + MESSAGE_BYTES];
        bytes[4..6].copy_from_slice(&libc::RTM_NEWQDISC.to_ne_bytes());
        bytes[HEADER_BYTES + INTERFACE_AT..][..4].copy_from_slice(&index.to_ne_bytes());
        bytes[HEADER_BYTES + PARENT_AT..][..4].copy_from_slice(&parent.to_ne_bytes());
        [bytes, attribute(TCA_KIND, b"htb\0"), attribute(TCA_STATS2, &stats)].concat()
    }

    #[test]
    fn the_root_of_the_interface_is_read_and_no_other() {
        let htb = RootQdisc { kind: "htb".into(), sent_packets: 10, backlog_packets: 3, dropped_packets: 7 };
        assert_eq!(root_of(&message(5, ROOT), 5), Some(htb));
        assert_eq!([root_of(&message(5, ROOT), 6), root_of(&message(5, 1), 5)], [None, None]);
        let whole = message(5, ROOT);
        (0..whole.len()).for_each(|len| _ = root_of(&whole[..len], 5));
    }

    #[test]
    fn the_kernel_answers() {
        let lo = Netlink::root_qdisc(1).unwrap();
        assert!(lo.is_none_or(|lo| !lo.kind.is_empty()));
    }
}
