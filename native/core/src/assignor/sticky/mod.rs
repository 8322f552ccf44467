//! `StickyAssignor` and `CooperativeStickyAssignor`: as balanced as subscriptions allow, and as
//! little moved as that allows (assignors sections 5 to 7, `AbstractStickyAssignor`).
//!
//! Groups whose members all have the same subscription take the `constrained` way, which is
//! linear; others the `general` one. `reference` is the general way word by word, which shows the
//! defects that `compat="java"` asks for.

mod claims;
mod constrained;
mod cooperative;
mod general;
mod loads;
mod movements;
mod rack_list;
mod reassign;
mod reference;
pub mod user_data;

use super::group::{Assignment, Group};
use super::{Compat, JavaError};
use claims::Claims;

/// `sticky`: partitions change hands at once (EAGER).
///
/// # Errors
/// With `Compat::Java`, where the Java class throws.
pub fn assign(group: &Group<'_>, compat: Compat) -> Result<Assignment, JavaError> {
    let claims = Claims::resolve(group, compat);
    if claims.subscriptions_equal {
        return Ok(constrained::assign(group, &claims)?.0);
    }
    general(group, &claims, compat)
}

/// `cooperative-sticky`: a partition that changes hands is withheld from its new owner until the
/// old one has given it up and the group rebalances again (KIP-429).
///
/// # Errors
/// With `Compat::Java`, where the Java class throws.
pub fn assign_cooperative(group: &Group<'_>, compat: Compat) -> Result<Assignment, JavaError> {
    let claims = Claims::resolve(group, compat);
    let (mut assignment, transferred) = if claims.subscriptions_equal {
        constrained::assign(group, &claims)?
    } else {
        let assignment = general(group, &claims, compat)?;
        let transferred = cooperative::transferred(group, &claims.order, &assignment);
        (assignment, transferred)
    };
    assignment.retain(|member, partition| transferred[partition as usize] != member);
    Ok(assignment)
}

fn general(group: &Group<'_>, claims: &Claims, compat: Compat) -> Result<Assignment, JavaError> {
    let prior = claims::Prior::new(group, &claims.order);
    if compat == Compat::Java && (claims.holds_phantoms || prior.has_strangers(group)) {
        return reference::assign(group, claims, &prior, compat);
    }
    Ok(general::assign(group, claims, &prior, compat))
}

/// The general way word by word, for tests that compare the two.
#[doc(hidden)]
pub fn assign_by_reference(group: &Group<'_>, compat: Compat) -> Result<Assignment, JavaError> {
    let claims = Claims::resolve(group, compat);
    let prior = claims::Prior::new(group, &claims.order);
    reference::assign(group, &claims, &prior, compat)
}

/// The general way as it is used, whatever the subscriptions are; for the same tests.
#[doc(hidden)]
pub fn assign_generally(group: &Group<'_>) -> Assignment {
    let claims = Claims::resolve(group, Compat::Correct);
    let prior = claims::Prior::new(group, &claims.order);
    general::assign(group, &claims, &prior, Compat::Correct)
}
