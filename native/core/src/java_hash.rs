//! Java's `String.hashCode`: where groups live, and how a `HashMap` iterates, depend on it.

const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// Over the units of UTF-16, wrapping: each is added to 31 times what those before it made. The bits
/// are those of Java's `int`.
#[inline]
pub fn java_hash(text: &str) -> u32 {
    let (eights, rest) = text.as_bytes().as_chunks();
    let (mut hash, mut all) = (0u32, 0);
    for eight in eights {
        let eight = u64::from_le_bytes(*eight);
        hash = hash.wrapping_mul(31u32.wrapping_pow(8)).wrapping_add(hash_eight(eight));
        all |= eight;
    }
    for unit in rest {
        hash = step(hash, u16::from(*unit));
        all |= u64::from(*unit);
    }
    if all & NOT_ASCII == 0 { hash } else { text.encode_utf16().fold(0, step) }
}

/// Of eight units: pairs of them are added up side by side in one word, then pairs of those, since
/// one after the other each would wait for the one before. None outgrows its lane.
#[inline]
fn hash_eight(ones: u64) -> u32 {
    const ONES: u64 = 0x00ff_00ff_00ff_00ff;
    const TWOS: u64 = 0x0000_ffff_0000_ffff;
    let twos = (ones & ONES) * 31 + (ones >> 8 & ONES);
    let fours = (twos & TWOS) * 31u64.pow(2) + (twos >> 16 & TWOS);
    (fours as u32).wrapping_mul(31u32.pow(4)).wrapping_add((fours >> 32) as u32)
}

fn step(hash: u32, unit: u16) -> u32 {
    hash.wrapping_mul(31).wrapping_add(u32::from(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of log-format section 1, made with Java itself.
    #[test]
    fn hashes_as_java_does() {
        for (text, hash) in [
            ("", 0),
            ("g", 103),
            ("test-group", 627841412),
            ("my-group", -1906497762),
            ("console-consumer-12345", 158455506),
            ("группа", 1749938458),
            ("消费组", 28099635),
            ("polygenelubricants", i32::MIN),
            ("😀", 1772899),
            ("12345678é", -1867378459),
            ("é2345678abcdefgh", -2109485744),
            ("orders-😀-12345678", -1916069178),
        ] {
            assert_eq!(java_hash(text).cast_signed(), hash, "{text}");
        }
    }

    #[test]
    fn eight_at_once_are_as_one_by_one() {
        let text: String = (' '..='\x7f').collect();
        for (from, to) in (0..text.len()).flat_map(|to| (0..=to).map(move |from| (from, to))) {
            let slowly = text[from..to].encode_utf16().fold(0, step);
            assert_eq!(java_hash(&text[from..to]), slowly, "{from}..{to}");
        }
    }
}
