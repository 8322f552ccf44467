// Closed-loop load on a Kafka group coordinator, over the wire: one connection per member, one
// request outstanding on each. Must never touch anything but the loopback interface, and every
// loop is bounded.
//
//   load HOST:PORT PID[,PID...] CONNECTIONS SECONDS PARTITIONS PREFIX PHASE ...
//
// Each phase is one line of JSON on stdout, with the CPU seconds that the server took (its
// processes, where it has several nodes), and those of this process:
//
//   find    FindCoordinator for every group, repeated until it is answered without error; members
//           of which another node is the coordinator connect to that one
//   find=PORT  the same for other groups, until the node at PORT coordinates those of all members
//   join    every member joins the group of its own; time until all are stable
//   hb      heartbeats for SECONDS; rate and latency percentiles
//   commit  OffsetCommit of PARTITIONS partitions for SECONDS
//   fetch   OffsetFetch of the same partitions for SECONDS
//   storm   one member more joins every group at once; time until every group is stable again. Its
//           first member asks whether to rejoin once the new one has its id, then every 50 ms
//   crowd=N every member joins a group of N; time until all are stable
//   lose=N  after crowd: N members of each group leave at once; time until the others are stable.
//           They ask whether to rejoin once the last has left, then every 50 ms
//   leave   every member leaves
//   fill=N  N further one-member groups over the same connections, one after the other on each,
//           with a subscription of 64 bytes and an assignment of 48; they stay
//   fill-offsets=N  N further groups that are only offsets, each of PARTITIONS partitions
//
// Errors that pass are counted: of a coordinator that loads, or of a group that changes in a phase
// that has groups change. Any other ends the process, as does a phase beyond its limit.
//
// The topic `topic` must exist with at least PARTITIONS partitions.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client.h"
#include "measure.h"

enum { EVENTS = 2048, TRIES = 100 };
static const double LIMIT_SECONDS = 120;       // of a phase that waits for all
static const double RETRY_SECONDS = 0.1;       // after an error that passes
static const double STORM_BEAT_SECONDS = 0.05; // how often members ask whether to rejoin

static struct member *members;  // one in each group, then the storm's
static int connections, fill_end;
static int crowd;      // members of a group, where there is more than one
static bool *settled;  // by group: of a crowd
static int *leaving;   // by group: members whose leaving is to be answered, in `lose`
static bool rebalancing, storming;
static int wanted_port;  // in `find=PORT`
static int epoll;
static double phase_seconds;
static enum state repeated;  // answered requests of this kind are sent again

// Counts a reply of the phase's kind, and sends the request again while the phase lasts.
static void again(struct member *member, enum state kind, void (*send)(struct member *)) {
    member->state = STABLE;
    if (repeated != kind) return;
    add_latency(now_seconds() - member->sent_at);
    done++;
    send(member);
}

static bool may_pass(int error) {
    return error == COORDINATOR_LOAD_IN_PROGRESS || error == COORDINATOR_NOT_AVAILABLE ||
           error == NOT_COORDINATOR || error == UNKNOWN_MEMBER_ID || error == REBALANCE_IN_PROGRESS;
}

static void ask_if_stable(struct member *member) {
    if (member->state == STABLE) send_heartbeat(member);
}

static void on_join(struct member *member) {
    int error = read_join(member);
    if (error == MEMBER_ID_REQUIRED) {
        send_join(member);
        if (storming) ask_if_stable(&members[member->group]);
    } else if (error == NONE) {
        send_sync(member);
    } else {
        count_error(error);
        if (!may_pass(error)) die("JoinGroup: error %d", error);
        member->state = IDLE;
    }
}

static void on_sync(struct member *member) {
    int error = read_sync(member);
    if (error != NONE) count_error(error);
    if (error == REBALANCE_IN_PROGRESS || error == ILLEGAL_GENERATION)
        send_join(member);
    else if (may_pass(error))
        member->state = IDLE;
    else if (error != NONE)
        die("SyncGroup: error %d", error);
    else
        member->state = STABLE;
}

static void on_heartbeat(struct member *member) {
    int error = read_heartbeat(member);
    if (error == NONE) {
        again(member, HEARTBEATING, send_heartbeat);
        return;
    }
    count_error(error);
    if (!rebalancing || (error != REBALANCE_IN_PROGRESS && error != ILLEGAL_GENERATION))
        die("Heartbeat: error %d", error);
    send_join(member);
}

// The next group of a fill on this connection; GONE after the last.
static void next_of_fill(struct member *member, void (*send)(struct member *)) {
    done++;
    member->group += connections;
    member->id[0] = 0;
    if (member->group < fill_end)
        send(member);
    else
        member->state = GONE;
}

static void on_offsets(struct member *member, int error, enum state kind,
                       void (*send)(struct member *)) {
    if (error != NONE) die("%s: error %d", kind == COMMITTING ? "OffsetCommit" : "OffsetFetch", error);
    if (fill_end > 0)
        next_of_fill(member, send);
    else
        again(member, kind, send);
}

static void on_leave(struct member *member) {
    int error = read_leave(member), group = member->group;
    if (error != NONE) die("LeaveGroup: error %d", error);
    member->state = GONE;
    done++;
    if (leaving[group] == 0 || --leaving[group] > 0) return;
    for (int i = group * crowd; i < (group + 1) * crowd; i++) ask_if_stable(&members[i]);
}

static void try_another_group(struct member *member) {
    member->group += connections;
    if (member->group >= TRIES * connections) die("find: the node coordinates too few groups");
    send_find_coordinator(member);
}

static void on_reply(struct member *member) {
    int error;
    switch (member->state) {
    case FINDING:
        error = read_find_coordinator(member);
        if (error != NONE) count_error(error);
        member->state = error == NONE ? FOUND : IDLE;
        if (error != NONE) break;
        if (wanted_port > 0 && member->coordinator_port != wanted_port) {
            try_another_group(member);
            break;
        }
        done++;
        follow_member(member, epoll);
        break;
    case JOINING:
        on_join(member);
        break;
    case SYNCING:
        on_sync(member);
        if (fill_end > 0 && member->state == STABLE) next_of_fill(member, send_join);
        break;
    case HEARTBEATING:
        on_heartbeat(member);
        break;
    case COMMITTING:
        on_offsets(member, read_commit(member), COMMITTING, send_commit);
        break;
    case FETCHING:
        on_offsets(member, read_fetch(member), FETCHING, send_fetch);
        break;
    case LEAVING:
        on_leave(member);
        break;
    default:
        die("a reply in state %d", member->state);
    }
}

static void pump(int timeout_ms) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(epoll, events, EVENTS, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct member *member = events[i].data.ptr;
        if (receive(member)) on_reply(member);
    }
}

static int count_in(enum state state, int from, int to) {
    int count = 0;
    for (int i = from; i < to; i++) count += members[i].state == state;
    return count;
}

static void retry_idle(void (*send)(struct member *)) {
    static double last;
    if (now_seconds() - last < RETRY_SECONDS) return;
    last = now_seconds();
    for (int i = 0; i < 2 * connections; i++)
        if (members[i].state == IDLE && members[i].socket > 0) send(&members[i]);
}

// Sends to members [from, to) and pumps until all of them are in the state `until`.
static double all(int from, int to, void (*send)(struct member *), enum state until) {
    double started = now_seconds();
    for (int i = from; i < to; i++) send(&members[i]);
    while (count_in(until, from, to) < to - from) {
        pump(20);
        retry_idle(send);
        if (now_seconds() - started > LIMIT_SECONDS) die("not all replied within the limit");
    }
    return now_seconds() - started;
}

static void for_a_while(const char *phase, enum state kind, void (*send)(struct member *)) {
    double started = now_seconds();
    repeated = kind;
    for (int i = 0; i < connections; i++) send(&members[i]);
    while (now_seconds() - started < phase_seconds) pump(50);
    report(phase, now_seconds() - started, done);
    repeated = IDLE;
    while (count_in(STABLE, 0, connections) < connections) {
        pump(20);
        if (now_seconds() - started > phase_seconds + LIMIT_SECONDS) die("requests left over");
    }
}

static void connect_all(int from, int to, const struct sockaddr_in *server) {
    for (int i = from; i < to; i++) connect_member(&members[i], server, epoll);
}

// Whether every group has a new generation, and all of its members are stable.
static bool storm_is_over(void) {
    for (int i = 0; i < 2 * connections; i++) {
        if (members[i].state != STABLE) return false;
        if (i < connections && members[i].generation == members[i].generation_before) return false;
    }
    return true;
}

static bool is_behind(const struct member *member) {
    return member->generation == member->generation_before;
}

static bool is_unsettled(const struct member *member) { return !settled[member->group]; }

// Members learn from a heartbeat that they have to join again, as real ones do: those of `beats`
// send one every STORM_BEAT_SECONDS.
static void pump_until(bool (*is_over)(void), bool (*beats)(const struct member *)) {
    double started = now_seconds(), next_beat = started + STORM_BEAT_SECONDS;
    rebalancing = true;
    while (!is_over()) {
        pump(1);
        retry_idle(send_join);
        double now = now_seconds();
        if (now - started > LIMIT_SECONDS) die("the groups do not become stable");
        if (now < next_beat) continue;
        next_beat = now + STORM_BEAT_SECONDS;
        for (int i = 0; i < connections; i++)
            if (beats(&members[i])) ask_if_stable(&members[i]);
    }
    rebalancing = false;
}

static void storm(const struct sockaddr_in *server) {
    connect_all(connections, 2 * connections, server);
    for (int i = 0; i < connections; i++) members[i].generation_before = members[i].generation;
    begin_phase();
    double started = now_seconds();
    for (int i = connections; i < 2 * connections; i++) send_join(&members[i]);
    storming = true;
    pump_until(storm_is_over, is_behind);
    storming = false;
    report("storm", now_seconds() - started, 2 * connections);
}

// Whether the members of a group, but for those who left, are stable in one new generation. It is
// the last one: nobody is on the way in or out.
static bool is_settled(int group) {
    int generation = 0;
    for (int i = group * crowd; i < (group + 1) * crowd; i++) {
        const struct member *member = &members[i];
        if (member->state == GONE) continue;
        if (member->state != STABLE || is_behind(member)) return false;
        if (generation != 0 && member->generation != generation) return false;
        generation = member->generation;
    }
    return true;
}

static bool crowds_are_settled(void) {
    int count = 0;
    for (int group = 0; group < connections / crowd; group++) {
        settled[group] = settled[group] || is_settled(group);
        count += settled[group];
    }
    return count == connections / crowd;
}

static double settle_crowds(double started) {
    memset(settled, 0, (size_t)connections);
    pump_until(crowds_are_settled, is_unsettled);
    return now_seconds() - started;
}

static void join_crowds(int size) {
    if (size < 1 || connections % size != 0) die("crowd: no groups of %d can be made", size);
    double started = now_seconds();
    crowd = size;
    for (int i = 0; i < connections; i++) {
        members[i].group = i / crowd;
        members[i].generation_before = members[i].generation;
        send_join(&members[i]);
    }
    report("crowd", settle_crowds(started), connections);
}

static void lose(int count) {
    if (crowd == 0 || count < 1 || count >= crowd) die("lose: fewer than a crowd, after it joined");
    for (int i = 0; i < connections; i++) members[i].generation_before = members[i].generation;
    double started = now_seconds();
    for (int group = 0; group < connections / crowd; group++) leaving[group] = count;
    for (int i = 0; i < connections; i++)
        if (i % crowd >= crowd - count) send_leave(&members[i]);
    report("lose", settle_crowds(started), connections / crowd * (crowd - count));
}

static void fill(const char *phase, int groups, void (*send)(struct member *)) {
    static int next_group;
    if (next_group == 0) next_group = connections;
    if (groups < connections) die("%s: at least one group per connection", phase);
    for (int i = 0; i < connections; i++) {
        members[i].group = next_group + i;
        members[i].id[0] = 0;
        members[i].generation = -1;  // a commit from outside any generation
    }
    next_group += groups;
    if (next_group > MOST_GROUPS) die("%s: no more than %d groups", phase, MOST_GROUPS);
    fill_end = next_group;
    double seconds = all(0, connections, send, GONE);
    fill_end = 0;
    report(phase, seconds, done);
}

static void leave(void) {
    double started = now_seconds();
    long sent = 0;
    for (int i = 0; i < 2 * connections; i++) {
        if (members[i].state != STABLE) continue;
        send_leave(&members[i]);
        sent++;
    }
    while (done < sent) {
        pump(20);
        if (now_seconds() - started > LIMIT_SECONDS) die("not all left within the limit");
    }
    report("leave", now_seconds() - started, done);
}

static void run(const char *phase, const struct sockaddr_in *server) {
    begin_phase();
    if (strncmp(phase, "find", 4) == 0) {
        wanted_port = phase[4] == '=' ? atoi(phase + 5) : 0;
        double seconds = all(0, connections, send_find_coordinator, FOUND);
        report("find", seconds, done);
    } else if (strcmp(phase, "join") == 0) {
        double seconds = all(0, connections, send_join, STABLE);
        report(phase, seconds, connections);
    } else if (strcmp(phase, "hb") == 0) {
        for_a_while(phase, HEARTBEATING, send_heartbeat);
    } else if (strcmp(phase, "commit") == 0) {
        for_a_while(phase, COMMITTING, send_commit);
    } else if (strcmp(phase, "fetch") == 0) {
        for_a_while(phase, FETCHING, send_fetch);
    } else if (strcmp(phase, "storm") == 0) {
        storm(server);
    } else if (strncmp(phase, "crowd=", 6) == 0) {
        join_crowds(atoi(phase + 6));
    } else if (strncmp(phase, "lose=", 5) == 0) {
        lose(atoi(phase + 5));
    } else if (strcmp(phase, "leave") == 0) {
        leave();
    } else if (strncmp(phase, "fill=", 5) == 0) {
        workload.subscription_bytes = 64;
        workload.assignment_bytes = 48;
        fill("fill", atoi(phase + 5), send_join);
    } else if (strncmp(phase, "fill-offsets=", 13) == 0) {
        fill("fill-offsets", atoi(phase + 13), send_commit);
    } else {
        die("no phase %s", phase);
    }
}

int main(int count, char **arguments) {
    if (count < 8) die("usage: HOST:PORT PID[,PID...] CONNECTIONS SECONDS PARTITIONS PREFIX PHASE ...");
    struct sockaddr_in server = server_at(arguments[1]);
    server_pids = arguments[2];
    connections = atoi(arguments[3]);
    phase_seconds = atof(arguments[4]);
    workload.partitions = atoi(arguments[5]);
    workload.prefix = arguments[6];
    if (connections < 1 || phase_seconds > LIMIT_SECONDS) die("nothing to do, or too much");

    members = calloc((size_t)(2 * connections), sizeof *members);
    settled = calloc((size_t)connections, sizeof *settled);
    leaving = calloc((size_t)(TRIES * connections), sizeof *leaving);
    epoll = epoll_create1(0);
    for (int i = 0; i < 2 * connections; i++) members[i].group = i % connections;
    connect_all(0, connections, &server);
    for (int i = 7; i < count; i++) run(arguments[i], &server);
    return 0;
}
