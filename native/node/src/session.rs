//! Who asks: what a node knows of a peer beside its requests (Kafka's `RequestContext`).

/// A peer, as the host knows it. A value: peers of which the same is known may share one. The host
/// makes a new one when it learns more, and the requests that come later carry that.
///
/// The core is told the client host alone: whether a principal may do something is decided where
/// frames are opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// As Kafka writes a `KafkaPrincipal`: `User:ANONYMOUS` where nobody has authenticated.
    pub principal: Box<str>,
    /// As Java prints an `InetAddress`: `/127.0.0.1`.
    pub client_host: Box<str>,
    /// The name of the listener that took the connection, as in Kafka's `listeners`.
    pub listener: Box<str>,
    /// What the client says of itself in ApiVersions (KIP-511); `unknown` before, as in Kafka.
    pub client_software_name: Box<str>,
    /// The same, its version.
    pub client_software_version: Box<str>,
}

/// The principal of a peer that has not authenticated (`KafkaPrincipal.ANONYMOUS`).
pub const ANONYMOUS: &str = "User:ANONYMOUS";

/// What is known of a client's software before it has said so (`ClientInformation.EMPTY`).
pub const UNKNOWN_SOFTWARE: &str = "unknown";

impl Session {
    /// Of a peer that has not said anything yet.
    pub fn anonymous(client_host: &str, listener: &str) -> Self {
        Session {
            principal: ANONYMOUS.into(),
            client_host: client_host.into(),
            listener: listener.into(),
            client_software_name: UNKNOWN_SOFTWARE.into(),
            client_software_version: UNKNOWN_SOFTWARE.into(),
        }
    }
}
