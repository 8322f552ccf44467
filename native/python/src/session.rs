//! `Session`: who asks, as a value that Python makes once and every frame borrows.

use std::sync::Arc;

use kcoord_node::{ANONYMOUS, Session, UNKNOWN_SOFTWARE};
use pyo3::prelude::*;

/// Who asks: what is known of a peer beside its requests, as Kafka's `RequestContext`. A value that
/// never changes; peers of which the same is known may share one.
///
/// `client_host` is as Java prints an address (`/127.0.0.1`), `listener` the name of the listener
/// that took the connection, `principal` as Kafka writes one (`User:ANONYMOUS` where nobody has
/// authenticated), `client_software_name` and `client_software_version` what the client says in
/// ApiVersions (KIP-511), `unknown` before. Raises UnicodeEncodeError for what is no Unicode text.
#[pyclass(name = "Session", module = "pykcoord._native", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PySession {
    pub session: Arc<Session>,
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (
        client_host,
        listener,
        *,
        principal = ANONYMOUS,
        client_software_name = UNKNOWN_SOFTWARE,
        client_software_version = UNKNOWN_SOFTWARE,
    ))]
    fn new(
        client_host: &str,
        listener: &str,
        principal: &str,
        client_software_name: &str,
        client_software_version: &str,
    ) -> Self {
        let session = Session {
            principal: principal.into(),
            client_host: client_host.into(),
            listener: listener.into(),
            client_software_name: client_software_name.into(),
            client_software_version: client_software_version.into(),
        };
        PySession { session: Arc::new(session) }
    }

    /// As Kafka writes one: `User:ANONYMOUS` where nobody has authenticated.
    #[getter]
    fn principal(&self) -> &str {
        &self.session.principal
    }

    /// As Java prints an address: `/127.0.0.1`.
    #[getter]
    fn client_host(&self) -> &str {
        &self.session.client_host
    }

    /// The name of the listener that took the connection.
    #[getter]
    fn listener(&self) -> &str {
        &self.session.listener
    }

    /// As the client says in ApiVersions (KIP-511), `unknown` before.
    #[getter]
    fn client_software_name(&self) -> &str {
        &self.session.client_software_name
    }

    /// As the client says in ApiVersions (KIP-511), `unknown` before.
    #[getter]
    fn client_software_version(&self) -> &str {
        &self.session.client_software_version
    }

    fn __repr__(&self) -> String {
        let Session {
            principal,
            client_host,
            listener,
            client_software_name: name,
            client_software_version: version,
        } = &*self.session;
        format!("<Session {principal} at {client_host} by {listener}, {name} {version}>")
    }
}
