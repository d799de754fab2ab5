//! The depot: free buffers for whoever runs dry. A stack of numbers, until a policy wants a list through the pages.

use super::line::WaitList;
use std::sync::Arc;
use wharf_mem::{FreeFrame, FreeList, Links};

/// What lies under the depot's lock.
#[derive(Debug)]
pub(super) struct Depot {
    stack: Vec<FreeFrame>,
    /// Once there is one, all that comes goes there.
    list: Option<FreeList>,
    /// Who waits for what comes here.
    pub(super) wait_list: WaitList,
}

impl Depot {
    pub(super) fn new(free: Vec<FreeFrame>) -> Self {
        Self { stack: free, list: None, wait_list: WaitList::default() }
    }

    /// Has a list from now on: the links, which other lists of pool number `pool` with its `frames` may share.
    pub(super) fn linked(&mut self, pool: u8, frames: u32) -> Arc<Links> {
        if let Some(list) = &self.list {
            return list.links().clone();
        }
        let links = Arc::new(Links::new(pool, frames));
        self.list = Some(FreeList::new(links.clone()));
        let stack = std::mem::take(&mut self.stack);
        self.extend(stack);
        links
    }

    pub(super) fn len(&self) -> usize {
        self.stack.len() + self.list.as_ref().map_or(0, FreeList::len)
    }

    /// The one put here last.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<FreeFrame> {
        self.list.as_mut().and_then(FreeList::pop_front).or_else(|| self.stack.pop())
    }

    /// Moves `count` onto `to`, or all where there are fewer.
    pub(super) fn move_to(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        if self.list.is_none() {
            let left = self.stack.len() - count.min(self.stack.len());
            return to.extend(self.stack.drain(left..));
        }
        to.extend(std::iter::from_fn(|| self.pop()).take(count));
    }

    pub(super) fn extend(&mut self, frames: impl IntoIterator<Item = FreeFrame>) {
        let Some(list) = &mut self.list else { return self.stack.extend(frames) };
        // What the list refuses is another pool's, and lies here as it always did.
        self.stack.extend(frames.into_iter().filter_map(|free| list.push_front(free).err()));
    }

    /// All there is.
    pub(super) fn empty(&mut self) -> Vec<FreeFrame> {
        let mut all = std::mem::take(&mut self.stack);
        all.extend(self.list.iter_mut().flat_map(|list| std::iter::from_fn(|| list.pop_front())));
        all
    }
}
