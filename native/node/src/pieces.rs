//! A long answer while it is encoded: in pieces, none of which is copied to make room.

/// Short things share a piece of so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// What was encoded so far, in order.
#[derive(Debug, Default)]
pub struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    /// Where the next `bytes` go, or somewhat more.
    pub fn room(&mut self, bytes: usize) -> &mut Vec<u8> {
        let fits = self.0.last().is_some_and(|piece| piece.len() + bytes <= PIECE_BYTES);
        if !fits {
            self.0.push(Vec::with_capacity(bytes));
        }
        self.0.last_mut().expect("there is one")
    }

    /// Puts what was encoded elsewhere behind the rest.
    pub fn push(&mut self, piece: Vec<u8>) {
        if piece.len() > PIECE_BYTES / 2 {
            self.0.push(piece);
        } else {
            self.room(piece.len()).extend_from_slice(&piece);
        }
    }

    pub fn push_front(&mut self, piece: Vec<u8>) {
        self.0.insert(0, piece);
    }

    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    pub fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// One by one: each is freed as soon as it was used.
    pub fn into_pieces(self) -> Vec<Vec<u8>> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_shares_a_piece_and_what_is_long_is_not_copied() {
        let mut pieces = Pieces::default();
        (0..PIECE_BYTES).for_each(|_| pieces.room(2).extend([1, 2]));
        assert_eq!((pieces.0.len(), pieces.bytes()), (2, 2 * PIECE_BYTES));
        let long = vec![7; PIECE_BYTES];
        let at = long.as_ptr();
        pieces.push(long);
        pieces.push(vec![8; 3]);
        pieces.push_front(vec![0]);
        assert_eq!(pieces.bytes(), 3 * PIECE_BYTES + 4);
        assert!(std::ptr::addr_eq(pieces.0[3].as_ptr(), at));
        assert!(pieces.into_pieces().concat().ends_with(&[7, 8, 8, 8]));
    }
}
