//! Who the clients of members are, and where. Many members of a shard have the same: each is held once.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;

/// As a client names itself, and where it is, as Java prints addresses.
#[derive(Debug)]
pub struct Client {
    pub id: Box<str>,
    pub host: Box<str>,
}

impl Client {
    #[inline]
    pub fn is(&self, id: &str, host: &str) -> bool {
        *self.id == *id && *self.host == *host
    }
}

/// Gives equal clients one home. What no member has any more is dropped when the table would grow.
#[derive(Debug, Default)]
pub struct ClientTable {
    table: HashTable<Arc<Client>>,
}

impl ClientTable {
    pub fn intern(&mut self, hasher: &RandomState, id: &str, host: &str) -> Arc<Client> {
        let hash = hasher.hash_one((id, host));
        if let Some(known) = self.table.find(hash, |known| known.is(id, host)) {
            return Arc::clone(known);
        }
        if self.table.len() == self.table.capacity() {
            self.table.retain(|known| Arc::strong_count(known) > 1);
        }
        let client = Arc::new(Client { id: id.into(), host: host.into() });
        let rehash = |known: &Arc<Client>| hasher.hash_one((&*known.id, &*known.host));
        self.table.insert_unique(hash, Arc::clone(&client), rehash);
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_clients_are_one_and_what_nobody_has_goes() {
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let mut table = ClientTable::default();
        let client = table.intern(&hasher, "ab", "c");
        assert!(!Arc::ptr_eq(&client, &table.intern(&hasher, "a", "bc")));
        for number in 0..1_000 {
            table.intern(&hasher, "app", &format!("/10.0.0.{number}"));
        }
        assert!(table.table.len() < 16, "{} of 1 are kept", table.table.len());
        assert!(Arc::ptr_eq(&client, &table.intern(&hasher, "ab", "c")));
    }
}
