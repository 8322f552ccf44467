//! OffsetFetch: every caller may (offsets section 4). The answer waits until what it holds is
//! durable.

use crate::budget::AnswerBudget;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::offset::fetch;
use crate::request::{OffsetFetchRequest, RequestContext, Ticket};
use crate::response::{OffsetFetchResponse, Response};

/// An answer that is smaller costs little more than what it answers, and is not counted.
const UNCOUNTED_BYTES: usize = 512;

impl Machine {
    pub fn fetch_offsets(
        &mut self,
        context: &RequestContext<'_>,
        request: &OffsetFetchRequest<'_>,
    ) {
        let topics = &self.offsets.topics;
        let ticket = context.ticket;
        let left = self.budget.left(ticket);
        let Some(group) = self.registry.find(request.group_id) else {
            let response = fetch::fetch(None, topics, request, left);
            let response = Response::OffsetFetch(counted(&mut self.budget, ticket, response));
            return self.respond_for_absent(ticket, response);
        };
        let of = &self.registry.groups[group];
        let admitted = self.check_is_whole(group).and_then(|()| self.admit_fetch(group, request));
        if let Err(error_code) = admitted {
            let response = fetch::refuse(request, error_code);
            return self.outbox.respond(ticket, Response::OffsetFetch(response));
        }
        if left == 0 && of.offsets.is_some() {
            // What was refused once is not gathered again.
            let response = fetch::refuse(request, self.budget.refuse(ticket));
            return self.outbox.respond(ticket, Response::OffsetFetch(response));
        }
        // A group without offsets is no error either.
        let budget = &mut self.budget;
        self.outbox.make_when_committed(of.last_record_end, ticket, || {
            let response = fetch::fetch(of.offsets.as_deref(), topics, request, left);
            Response::OffsetFetch(counted(budget, ticket, response))
        });
    }
}

/// Takes the memory of an answer, which was made within what is left of it.
#[inline(always)]
fn counted(
    budget: &mut AnswerBudget,
    ticket: Ticket,
    response: OffsetFetchResponse,
) -> OffsetFetchResponse {
    let bytes = response.topics_length();
    if bytes <= UNCOUNTED_BYTES && !response.has_error() {
        return response;
    }
    count(budget, ticket, response)
}

#[cold]
fn count(
    budget: &mut AnswerBudget,
    ticket: Ticket,
    response: OffsetFetchResponse,
) -> OffsetFetchResponse {
    let refusal = match response.error_code() {
        ErrorCode::UnknownServerError => Err(budget.refuse(ticket)),
        _ => budget.take(ticket, response.topics_length()),
    };
    match refusal {
        Ok(()) => response,
        Err(error_code) => OffsetFetchResponse::new(response.group_id(), error_code),
    }
}
