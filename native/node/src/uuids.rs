//! Member-id entropy: a keyed counter, so that one seed from the host serves a whole process and
//! the same seed gives the same ids. A member id is what fences a member, so one id must not
//! betray the next: the hash is SipHash-2-4 with a secret key, never a plain generator.

use siphasher::sip128::{Hasher128, SipHasher24};

pub struct Uuids {
    key: [u8; 16],
    counter: u64,
    salt: u64,
}

impl Uuids {
    /// `seed`: entropy from the host (the operating system's, in production).
    pub fn new(seed: &[u8; 32]) -> Self {
        let (key, salt) = seed.split_at(16);
        let fold = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
        Uuids {
            key: key.try_into().expect("sixteen bytes"),
            counter: fold(&salt[..8]),
            salt: fold(&salt[8..]),
        }
    }

    /// Key, counter and salt: as secret as the seed.
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.key);
        bytes[16..24].copy_from_slice(&self.counter.to_le_bytes());
        bytes[24..].copy_from_slice(&self.salt.to_le_bytes());
        bytes
    }

    /// `None`: bytes of another length than `to_bytes` gives.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Uuids::new(bytes.try_into().ok()?))
    }

    pub fn next(&mut self) -> u128 {
        use core::hash::Hasher;
        self.counter = self.counter.wrapping_add(1);
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(self.counter);
        hasher.write_u64(self.salt);
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_ids_and_no_two_alike() {
        let (mut a, mut b, mut c) =
            (Uuids::new(&[7; 32]), Uuids::new(&[7; 32]), Uuids::new(&[8; 32]));
        let ids: Vec<u128> = (0..1000).map(|_| a.next()).collect();
        assert!(ids.iter().all(|id| *id == b.next()));
        assert!(ids.iter().all(|id| *id != c.next()));
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), ids.len());
    }
}
