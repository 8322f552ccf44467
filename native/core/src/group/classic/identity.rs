//! Who a request says it is (`ClassicGroup.validateMember`, states section 3.2), and new member
//! ids.

use crate::error::ErrorCode;
use crate::group::Machine;

impl Machine {
    /// The member's row, or the error of an id that is unknown or fenced.
    #[inline]
    pub fn identify(
        &self,
        group: u32,
        member_id: &str,
        group_instance_id: Option<&str>,
    ) -> Result<u32, ErrorCode> {
        match group_instance_id {
            Some(instance_id) => self.identify_static(group, member_id, instance_id),
            None => self.registry.find_member(group, member_id).ok_or(ErrorCode::UnknownMemberId),
        }
    }

    #[inline(never)]
    fn identify_static(
        &self,
        group: u32,
        member_id: &str,
        instance_id: &str,
    ) -> Result<u32, ErrorCode> {
        let row = self.registry.find_static_member(group, instance_id);
        let row = row.ok_or(ErrorCode::UnknownMemberId)?;
        if !self.registry.members[row].is_member_id(member_id) {
            return Err(ErrorCode::FencedInstanceId);
        }
        Ok(row)
    }
}

/// `<group.instance.id>-<UUID>` or `<client.id>-<UUID>`, with a version 4 UUID made of `entropy`.
pub fn generate_member_id(prefix: &str, entropy: u128) -> String {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    let uuid = entropy & !(VERSION | VARIANT) | 0x4 << 76 | 0b10 << 62;
    let mut id = String::with_capacity(prefix.len() + 37);
    id.push_str(prefix);
    id.push('-');
    // By hand: a formatter takes a tenth of what a join does.
    for (at, byte) in uuid.to_be_bytes().into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        for digit in [byte >> 4, byte & 0xf] {
            id.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::generate_member_id;

    #[test]
    fn makes_version_4_uuids() {
        assert_eq!(generate_member_id("app", 0), "app-00000000-0000-4000-8000-000000000000");
        assert_eq!(generate_member_id("", u128::MAX), "-ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
