//! What is known of requests and connections under way, by ticket. There are few at a time, and they
//! come and go with every request: a list that is looked through costs less than a tree.

/// Never iterated but to be emptied: its order means nothing.
pub struct Tickets<T>(Vec<(u64, T)>);

impl<T> Default for Tickets<T> {
    fn default() -> Tickets<T> {
        Tickets(Vec::new())
    }
}

impl<T> Tickets<T> {
    fn position(&self, ticket: u64) -> Option<usize> {
        self.0.iter().position(|(known, _)| *known == ticket)
    }

    pub fn contains(&self, ticket: u64) -> bool {
        self.position(ticket).is_some()
    }

    pub fn of_mut(&mut self, ticket: u64) -> Option<&mut T> {
        let at = self.position(ticket)?;
        Some(&mut self.0[at].1)
    }

    /// Replaces what was known.
    pub fn insert(&mut self, ticket: u64, known: T) {
        match self.of_mut(ticket) {
            Some(before) => *before = known,
            None => self.0.push((ticket, known)),
        }
    }

    pub fn remove(&mut self, ticket: u64) -> Option<T> {
        let at = self.position(ticket)?;
        Some(self.0.swap_remove(at).1)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All tickets, the lowest first; nothing is left.
    pub fn drain(&mut self) -> Vec<u64> {
        let mut tickets: Vec<u64> = self.0.drain(..).map(|(ticket, _)| ticket).collect();
        tickets.sort_unstable();
        tickets
    }
}

impl<T: Default> Tickets<T> {
    pub fn entry(&mut self, ticket: u64) -> &mut T {
        let at = self.position(ticket).unwrap_or_else(|| {
            self.0.push((ticket, T::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}
