// Closed-loop load on the consumer groups of a Kafka group coordinator, over the wire: the same as
// load.c for classic groups, with ConsumerGroupHeartbeat. Must never touch anything but the loopback
// interface, and every loop is bounded.
//
//   consumer-load HOST:PORT PID CONNECTIONS SECONDS TOPIC PARTITIONS PREFIX PHASE ...
//
// Each phase is one line of JSON on stdout, as load.c writes it:
//
//   find    FindCoordinator for every group, repeated until it is answered without error
//   join    every member joins a group of its own; time until each has all partitions
//   hb      heartbeats that change nothing for SECONDS; rate and latency percentiles
//   storm   one member more joins every group at once, after join; time until both members of each
//           are of the newest epoch and have all partitions between them
//   crowd   every member joins one group; time until all are of one epoch and have all partitions
//   more=N  after crowd: N members more, one after the other, each timed until all are of its epoch
//           and have all partitions
//   leave   every member leaves
//
// While a group is not settled, each of its members sends a heartbeat as soon as the last one is
// answered. TOPIC must exist with PARTITIONS partitions, and the server must have
// group.consumer.assignment.interval.ms=0.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "consumer_client.h"
#include "measure.h"

enum { EVENTS = 2048 };
static const double LIMIT_SECONDS = 120;  // of a phase that waits for all
static const double RETRY_SECONDS = 0.1;  // after an error that passes

// Where the members of a group are.
struct group {
    int members;
    int newest_epoch;
    int at_newest;  // members
    int owned;      // partitions, of all of them
    bool is_settled;
};

static struct consumer *consumers;  // one in each group, or all in one; then those that come later
static struct group *groups;
static int connections, partitions, epoll;
static double phase_seconds;
static bool repeats, settles;
static int unsettled;  // groups

static bool is_settled(const struct group *group) {
    return group->members > 0 && group->at_newest == group->members && group->owned == partitions;
}

// Counts what a reply has changed, and whether the group is settled by it.
static void account(struct consumer *consumer, int epoch_before, int owned_before) {
    struct group *group = &groups[consumer->base.group];
    bool was_settled = group->is_settled;
    group->owned += consumer->owned_count - owned_before;
    if (consumer->epoch > group->newest_epoch) {
        group->newest_epoch = consumer->epoch;
        group->at_newest = 1;
    } else if (consumer->epoch == group->newest_epoch && epoch_before != consumer->epoch) {
        group->at_newest++;
    }
    group->is_settled = is_settled(group);
    unsettled += was_settled - group->is_settled;
}

static bool may_pass(int error) {
    return error == COORDINATOR_LOAD_IN_PROGRESS || error == COORDINATOR_NOT_AVAILABLE ||
           error == NOT_COORDINATOR;
}

static void on_beat(struct consumer *consumer) {
    struct member *member = &consumer->base;
    int epoch_before = consumer->epoch, owned_before = consumer->owned_count;
    int error = read_beat(consumer);
    member->state = STABLE;
    if (error != NONE) {
        count_error(error);
        if (!may_pass(error)) die("ConsumerGroupHeartbeat: error %d", error);
        member->state = IDLE;
        return;
    }
    account(consumer, epoch_before, owned_before);
    if (repeats) {
        add_latency(now_seconds() - member->sent_at);
        done++;
        send_beat(consumer);
    } else if (settles && !groups[member->group].is_settled) {
        send_beat(consumer);
    }
}

static void on_reply(struct consumer *consumer) {
    struct member *member = &consumer->base;
    int error;
    switch (member->state) {
    case FINDING:
        error = read_find_coordinator(member);
        if (error != NONE) count_error(error);
        if (error == NONE) done++;
        member->state = error == NONE ? FOUND : IDLE;
        break;
    case HEARTBEATING:
        on_beat(consumer);
        break;
    case LEAVING:
        if ((error = read_beat(consumer)) != NONE) die("leaving: error %d", error);
        member->state = GONE;
        done++;
        break;
    default:
        die("a reply in state %d", member->state);
    }
}

static void pump(int timeout_ms) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(epoll, events, EVENTS, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct consumer *consumer = events[i].data.ptr;  // its base is its first field
        if (receive(&consumer->base)) on_reply(consumer);
    }
}

static void find(struct consumer *consumer) { send_find_coordinator(&consumer->base); }

static void retry_idle(void (*send)(struct consumer *)) {
    static double last;
    if (now_seconds() - last < RETRY_SECONDS) return;
    last = now_seconds();
    for (int i = 0; i < 2 * connections; i++)
        if (consumers[i].base.state == IDLE && consumers[i].base.socket > 0) send(&consumers[i]);
}

static void pump_until_done(long wanted, void (*send)(struct consumer *)) {
    double started = now_seconds();
    while (done < wanted) {
        pump(20);
        retry_idle(send);
        if (now_seconds() - started > LIMIT_SECONDS) die("not all replied within the limit");
    }
}

static void connect_all(int from, int to, const struct sockaddr_in *server) {
    for (int i = from; i < to; i++) {
        if (consumers[i].base.socket > 0) continue;
        connect_member(&consumers[i].base, server, epoll);
    }
}

static void join(struct consumer *consumer, int group) {
    consumer->base.group = group;
    groups[group].members++;
    unsettled += groups[group].is_settled || groups[group].members == 1;
    groups[group].is_settled = false;
    send_beat(consumer);
}

static bool is_idle(const struct consumer *consumer) {
    return consumer->base.state == STABLE || consumer->base.state == FOUND;
}

// Heartbeats of all members of groups that are not settled, until all are.
static double settle(double started, int count) {
    settles = true;
    for (int i = 0; i < count; i++)
        if (is_idle(&consumers[i]) && consumers[i].epoch > 0) send_beat(&consumers[i]);
    while (unsettled > 0) {
        pump(20);
        retry_idle(send_beat);
        if (now_seconds() - started > LIMIT_SECONDS) die("the groups do not settle");
    }
    double seconds = now_seconds() - started;
    settles = false;
    for (int i = 0; i < count; i++)
        while (consumers[i].base.state == HEARTBEATING) {
            pump(20);
            if (now_seconds() - started > 2 * LIMIT_SECONDS) die("requests left over");
        }
    return seconds;
}

static void join_all(const char *phase, bool in_one) {
    double started = now_seconds();
    for (int i = 0; i < connections; i++) join(&consumers[i], in_one ? 0 : i);
    report(phase, settle(started, connections), connections);
}

static void beat_for_a_while(void) {
    double started = now_seconds();
    repeats = true;
    for (int i = 0; i < connections; i++) send_beat(&consumers[i]);
    while (now_seconds() - started < phase_seconds) pump(50);
    report("hb", now_seconds() - started, done);
    repeats = false;
    settle(now_seconds(), connections);
}

static void storm(const struct sockaddr_in *server) {
    connect_all(connections, 2 * connections, server);
    begin_phase();
    double started = now_seconds();
    for (int i = 0; i < connections; i++) join(&consumers[connections + i], i);
    report("storm", settle(started, 2 * connections), connections);
}

static void more(int count, const struct sockaddr_in *server) {
    if (count < 1 || count > connections) die("more: 1 to %d", connections);
    double seconds = 0;
    for (int i = 0; i < count; i++) {
        connect_all(connections + i, connections + i + 1, server);
        double started = now_seconds();
        join(&consumers[connections + i], 0);
        seconds += settle(started, connections + i + 1);
    }
    report("more", seconds, count);
}

static void leave(void) {
    double started = now_seconds();
    long sent = 0;
    for (int i = 0; i < 2 * connections; i++) {
        if (consumers[i].base.state != STABLE) continue;
        send_end(&consumers[i]);
        sent++;
    }
    pump_until_done(sent, send_end);
    report("leave", now_seconds() - started, done);
}

static void run(const char *phase, const struct sockaddr_in *server) {
    begin_phase();
    if (strcmp(phase, "find") == 0) {
        double started = now_seconds();
        for (int i = 0; i < connections; i++) find(&consumers[i]);
        pump_until_done(connections, find);
        report(phase, now_seconds() - started, done);
    } else if (strcmp(phase, "join") == 0) {
        join_all(phase, false);
    } else if (strcmp(phase, "hb") == 0) {
        beat_for_a_while();
    } else if (strcmp(phase, "storm") == 0) {
        storm(server);
    } else if (strcmp(phase, "crowd") == 0) {
        join_all(phase, true);
    } else if (strncmp(phase, "more=", 5) == 0) {
        more(atoi(phase + 5), server);
    } else if (strcmp(phase, "leave") == 0) {
        leave();
    } else {
        die("no phase %s", phase);
    }
}

int main(int count, char **arguments) {
    if (count < 9) die("usage: HOST:PORT PID CONNECTIONS SECONDS TOPIC PARTITIONS PREFIX PHASE ...");
    struct sockaddr_in server = server_at(arguments[1]);
    server_pids = arguments[2];
    connections = atoi(arguments[3]);
    phase_seconds = atof(arguments[4]);
    workload.topic = arguments[5];
    partitions = atoi(arguments[6]);
    workload.prefix = arguments[7];
    if (connections < 1 || phase_seconds > LIMIT_SECONDS) die("nothing to do, or too much");

    consumers = calloc((size_t)(2 * connections), sizeof *consumers);
    groups = calloc((size_t)connections, sizeof *groups);
    epoll = epoll_create1(0);
    for (int i = 0; i < 2 * connections; i++) {
        consumers[i].base.group = i % connections;
        snprintf(consumers[i].base.id, ID_MAX, "XyAbCdEfGhIjKl%08d", i);
    }
    connect_all(0, connections, &server);
    for (int i = 8; i < count; i++) run(arguments[i], &server);
    return 0;
}
