//! A long answer while it is encoded: in pieces, none of which is copied to make room.

use kcoord_wire::in_steps::InSteps;

/// Short things share a piece of so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// What was encoded so far, in order.
#[derive(Debug, Default)]
pub struct Pieces(Vec<Piece>);

/// One piece of an answer.
#[derive(Debug)]
pub enum Piece {
    /// As it is sent.
    Bytes(Vec<u8>),
    /// It is encoded while it is sent.
    InSteps(Box<dyn InSteps>),
}

impl Piece {
    pub fn bytes(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::InSteps(steps) => steps.left(),
        }
    }

    fn encoded(self) -> Vec<u8> {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::InSteps(mut steps) => {
                let all = steps.left();
                let mut out = Vec::with_capacity(all);
                steps.fill(&mut out, all);
                out
            }
        }
    }
}

impl Pieces {
    /// Where the next `bytes` go, or somewhat more.
    pub fn room(&mut self, bytes: usize) -> &mut Vec<u8> {
        let fits = |piece: &Vec<u8>| piece.len() + bytes <= PIECE_BYTES;
        if !matches!(self.0.last(), Some(Piece::Bytes(piece)) if fits(piece)) {
            self.0.push(Piece::Bytes(Vec::with_capacity(bytes)));
        }
        match self.0.last_mut() {
            Some(Piece::Bytes(piece)) => piece,
            _ => unreachable!("it was seen or pushed"),
        }
    }

    /// Puts what was encoded elsewhere behind the rest.
    pub fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Bytes(bytes) if bytes.len() <= PIECE_BYTES / 2 => {
                self.room(bytes.len()).extend_from_slice(&bytes);
            }
            piece => self.0.push(piece),
        }
    }

    pub fn push_front(&mut self, piece: Vec<u8>) {
        self.0.insert(0, Piece::Bytes(piece));
    }

    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    pub fn bytes(&self) -> usize {
        self.0.iter().map(Piece::bytes).sum()
    }

    /// One by one: each is freed as soon as it was used.
    pub fn into_pieces(self) -> Vec<Piece> {
        self.0
    }

    /// The same, all of it encoded.
    pub fn into_encoded(self) -> Vec<Vec<u8>> {
        self.0.into_iter().map(Piece::encoded).collect()
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
        pieces.push(Piece::Bytes(long));
        pieces.push(Piece::Bytes(vec![8; 3]));
        pieces.push_front(vec![0]);
        assert_eq!(pieces.bytes(), 3 * PIECE_BYTES + 4);
        assert!(matches!(&pieces.0[3], Piece::Bytes(long) if std::ptr::addr_eq(long.as_ptr(), at)));
        assert!(pieces.into_encoded().concat().ends_with(&[7, 8, 8, 8]));
    }
}
