//! Maps that readers search: a fast hash with a seed, and a map in pieces, of which a change copies one.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

pub(crate) type Map<K, V> = HashMap<K, V, Seed>;

/// The seed of a hash. Far hosts choose addresses of neighbours: they must not choose where these fall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seed {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// A hash by multiplying and folding, as wyhash does.
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

const PIECES: usize = 64;

/// A map whose clone shares its pieces.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<K, V> {
    seed: Seed,
    pieces: Arc<[Arc<Map<K, V>>]>,
}

impl<K, V> Default for Pieces<K, V> {
    fn default() -> Self {
        let seed = Seed::default();
        let piece = Arc::new(Map::with_hasher(Seed(seed.0.rotate_left(7))));
        Self { seed, pieces: (0..PIECES).map(|_| piece.clone()).collect() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Pieces<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.pieces[self.place(key)].get(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.piece(&key).insert(key, value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.get(key)?;
        self.piece(key).remove(key)
    }

    fn piece(&mut self, key: &K) -> &mut Map<K, V> {
        let place = self.place(key);
        Arc::make_mut(&mut Arc::make_mut(&mut self.pieces)[place])
    }

    fn place(&self, key: &K) -> usize {
        self.seed.hash_one(key) as usize % PIECES
    }
}
