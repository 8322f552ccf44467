//! The trace of a run: a hash of everything that went in and out, always; a line for everything
//! that happened, on request.

pub struct Trace {
    hash: u32,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub fn new(keeps_lines: bool) -> Trace {
        Trace { hash: 0, lines: keeps_lines.then(Vec::new) }
    }

    pub fn mix(&mut self, bytes: &[u8]) {
        self.hash = crc32c::crc32c_append(self.hash, bytes);
    }

    pub fn mix_number(&mut self, number: i64) {
        self.mix(&number.to_be_bytes());
    }

    pub fn note(&mut self, now_ms: i64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>6}.{:03}  {}", now_ms / 1_000, now_ms % 1_000, line()));
        }
    }

    pub fn hash(&self) -> u32 {
        self.hash
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
