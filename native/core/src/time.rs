//! Arithmetic of deadlines. Timeouts come from peers, so nothing here may overflow or go back.

/// `timeout_ms` from now; a negative timeout is due now.
pub fn deadline(now_ms: i64, timeout_ms: i32) -> i64 {
    now_ms.saturating_add(timeout_ms.max(0).into())
}
