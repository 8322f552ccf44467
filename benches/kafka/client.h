// One Kafka client that is a group member on a connection of its own, as small as load allows.
//
// Writes requests and reads replies of the versions below; knows nothing of load or phases. It
// never waits: a request is sent whole, a reply is handed out when its last byte is there.
#ifndef PYKCOORD_BENCHES_CLIENT_H
#define PYKCOORD_BENCHES_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { ID_MAX = 160 };
enum { GROUP_DIGITS = 7, MOST_GROUPS = 10000000 };  // of a group's number, in its name

// Kafka's error codes that a member expects.
enum {
    NONE = 0,
    COORDINATOR_LOAD_IN_PROGRESS = 14,
    COORDINATOR_NOT_AVAILABLE = 15,
    NOT_COORDINATOR = 16,
    ILLEGAL_GENERATION = 22,
    UNKNOWN_MEMBER_ID = 25,
    REBALANCE_IN_PROGRESS = 27,
    MEMBER_ID_REQUIRED = 79,
};

enum state {
    IDLE,     // refused: tries again later
    FINDING,  // FindCoordinator v1
    FOUND,
    JOINING,        // JoinGroup v5
    SYNCING,        // SyncGroup v3
    STABLE,         // a member, no request in flight
    HEARTBEATING,   // Heartbeat v3
    COMMITTING,     // OffsetCommit v7
    FETCHING,       // OffsetFetch v5
    LEAVING,        // LeaveGroup v1
    GONE,
};

struct member {
    int socket;
    int port;              // where it is connected to
    int coordinator_port;  // as the last FindCoordinator said
    int group;
    enum state state;
    int generation;
    int generation_before;  // the storm's
    char id[ID_MAX];
    bool is_leader;
    int member_count;        // known to the leader only
    char (*member_ids)[ID_MAX];
    int correlation_id;
    double sent_at;
    uint8_t *reply;
    int reply_bytes, reply_capacity;
};

// What every request has in common.
struct workload {
    const char *prefix;      // of the group ids
    const char *topic;
    int partitions;          // of a commit or fetch
    int subscription_bytes;  // at least what the topic takes; the rest is user data
    int assignment_bytes;
};
extern struct workload workload;

double now_seconds(void);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The server at HOST:PORT, on loopback only. As many connections as the system allows are allowed.
struct sockaddr_in server_at(char *address);

// Connects, and has `epoll` say by `data.ptr` that the member has a reply.
void connect_member(struct member *member, const struct sockaddr_in *server, int epoll);

// Connects to the coordinator that was found, where it has another port; nothing is outstanding.
void follow_member(struct member *member, int epoll);

void send_find_coordinator(struct member *member);
void send_join(struct member *member);
void send_sync(struct member *member);
void send_heartbeat(struct member *member);
void send_commit(struct member *member);
void send_fetch(struct member *member);
void send_leave(struct member *member);

// Reads what is there; true when `member->reply` holds a whole reply to its last request. Behind it
// nothing is looked for: that the server is gone is found by the next request.
bool receive(struct member *member);

// Each takes the reply that `receive` found, and returns its error code: of the first partition
// that has one. `read_join` and `read_find_coordinator` store what it says in the member.
int read_find_coordinator(struct member *member);
int read_join(struct member *member);
int read_sync(struct member *member);
int read_heartbeat(struct member *member);
int read_commit(struct member *member);
int read_fetch(struct member *member);
int read_leave(struct member *member);

#endif
