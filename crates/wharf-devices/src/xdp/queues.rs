//! `QueueChoice`: the queues of an interface that devices use, as the key `queue` names them.

use std::io;
use wharf_sys::ethtool::Ethtool;

/// The greatest number of a queue.
const QUEUE_MAX: u32 = u16::MAX as u32;

/// A choice of an interface's queues: `auto`, `N` or `N-M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueChoice {
    /// Every queue that receives, shared out among the devices. To send, one for each device, from 0 on.
    #[default]
    Auto,
    /// One for each device, from this number on.
    From(u32),
    /// Those from the first number to the second, shared out among the devices that receive. To send, one for each device.
    Range(u32, u32),
}

impl QueueChoice {
    /// Reads a choice.
    ///
    /// # Errors
    /// The text is no choice: the error says what is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|&number| number <= QUEUE_MAX);
        let choice = match text.split_once('-') {
            None if text == "auto" => Some(Self::Auto),
            None => number(text).map(Self::From),
            Some((first, last)) => {
                number(first).zip(number(last)).map(|(first, last)| Self::Range(first, last))
            }
        };
        choice.filter(|choice| !matches!(choice, Self::Range(first, last) if first > last)).ok_or_else(|| {
            format!(
                "queue: \"{}\" cannot be: auto, a queue such as 0, or a range such as 0-3",
                text.escape_debug()
            )
        })
    }

    /// Returns the queue of each of `count` devices that send.
    ///
    /// # Errors
    /// There are fewer queues than devices.
    pub fn to_send(self, count: u32) -> Result<Vec<u32>, String> {
        let first = match self {
            Self::Auto => 0,
            Self::From(first) => first,
            Self::Range(first, last) if last - first >= count - 1 => first,
            Self::Range(first, last) => {
                return Err(format!(
                    "queue={first}-{last} has {} queues, for {count} devices",
                    last - first + 1
                ));
            }
        };
        Ok((0..count).map(|at| first.saturating_add(at)).collect())
    }

    /// Returns the queues of each of `count` devices that receive; `there` is the number of queues that the interface receives
    /// by. Device `at` has queue `at`, and then every further one of `count`.
    ///
    /// # Errors
    /// Those of [`QueueChoice::to_send`].
    pub fn to_receive(self, count: u32, there: u32) -> Result<Vec<Vec<u32>>, String> {
        let first = self.to_send(count)?;
        let last = match self {
            Self::Auto => there.saturating_sub(1),
            Self::From(_) => 0,
            Self::Range(_, last) => last,
        };
        let all_of = |first: u32| {
            std::iter::once(first).chain((first.saturating_add(count)..=last).step_by(count as usize))
        };
        Ok(first.into_iter().map(|first| all_of(first).collect()).collect())
    }
}

/// Returns the number of queues that interface `name` receives by: as its driver says, or by sysfs for drivers that do not; else 1.
pub(super) fn receiving(name: &str) -> u32 {
    let channels = Ethtool::open().and_then(|tool| tool.channels(name));
    let count = channels.map(|channels| channels.combined.saturating_add(channels.rx));
    let count = count.ok().filter(|&count| count > 0).or_else(|| in_sysfs(name).ok());
    count.unwrap_or(1).clamp(1, QUEUE_MAX + 1)
}

/// Counts the receive queues of interface `name` in sysfs, which may show another network namespace.
fn in_sysfs(name: &str) -> io::Result<u32> {
    let entries = std::fs::read_dir(format!("/sys/class/net/{name}/queues"))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Ok(names.filter(|name| name.to_string_lossy().starts_with("rx-")).count() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_auto_or_a_queue_or_a_range() {
        let read = |text| QueueChoice::parse(text).ok();
        assert_eq!(read("auto"), Some(QueueChoice::Auto));
        assert_eq!(read("65535"), Some(QueueChoice::From(65535)));
        assert_eq!(read("2-5"), Some(QueueChoice::Range(2, 5)));
        for text in ["", "-", "-1", "1-", "5-2", "65536", "0-65536", "all", "1-2-3", "0x1", "4294967296"] {
            let fault = QueueChoice::parse(text).unwrap_err();
            assert!(fault.starts_with("queue: ") && fault.contains("auto, a queue"), "{text}: {fault}");
        }
    }

    #[test]
    fn devices_that_receive_share_out_all_queues() {
        let sets = |choice: QueueChoice, count, there| choice.to_receive(count, there).unwrap();
        assert_eq!(sets(QueueChoice::Auto, 1, 4), [[0, 1, 2, 3]]);
        assert_eq!(sets(QueueChoice::Auto, 4, 4), [[0], [1], [2], [3]]);
        assert_eq!(sets(QueueChoice::Auto, 2, 5), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(sets(QueueChoice::Auto, 2, 1), [[0], [1]], "the kernel refuses those that are not there");
        assert_eq!(sets(QueueChoice::Auto, 1, 0), [[0]]);
        assert_eq!(sets(QueueChoice::From(3), 2, 8), [[3], [4]]);
        assert_eq!(sets(QueueChoice::Range(2, 5), 1, 1), [[2, 3, 4, 5]]);
        assert_eq!(sets(QueueChoice::Range(2, 5), 3, 1), [vec![2, 5], vec![3], vec![4]]);
        assert!(
            QueueChoice::Range(2, 5).to_receive(5, 8).unwrap_err().contains("has 4 queues, for 5 devices")
        );
    }

    #[test]
    fn devices_that_send_have_a_queue_each() {
        assert_eq!(QueueChoice::Auto.to_send(2).unwrap(), [0, 1]);
        assert_eq!(QueueChoice::From(7).to_send(2).unwrap(), [7, 8]);
        assert_eq!(QueueChoice::Range(2, 5).to_send(1).unwrap(), [2]);
        assert!(QueueChoice::Range(2, 2).to_send(2).is_err());
        assert!(QueueChoice::From(u32::MAX).to_send(2).is_ok());
    }
}
