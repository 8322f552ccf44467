//! Java's `String.hashCode`: where groups live, and how a `HashMap` iterates, depend on it.

/// Over the units of UTF-16, wrapping: each is added to 31 times what those before it made.
pub fn java_hash(text: &str) -> u32 {
    if !text.is_ascii() {
        return text.encode_utf16().fold(0, step);
    }
    let (eights, rest) = text.as_bytes().as_chunks();
    let hash = eights.iter().fold(0u32, |hash, eight| {
        hash.wrapping_mul(31u32.pow(4).wrapping_pow(2)).wrapping_add(hash_eight(*eight))
    });
    rest.iter().fold(hash, |hash, unit| step(hash, u16::from(*unit)))
}

/// Of eight units, which would wait for each other: pairs of them side by side in one word, then
/// pairs of those, none of which outgrows its lane.
fn hash_eight(eight: [u8; 8]) -> u32 {
    const ONES: u64 = 0x00ff_00ff_00ff_00ff;
    const TWOS: u64 = 0x0000_ffff_0000_ffff;
    let ones = u64::from_le_bytes(eight);
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
