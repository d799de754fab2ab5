use wharf_mem::{Batch, Frame, Region};

fn attempt(region: &Region, frame: Frame, batch: &mut Batch) -> usize {
    let chunks = region.chunks(&frame).unwrap();
    batch.push(frame).unwrap();
    chunks.count()
}

fn main() {}
