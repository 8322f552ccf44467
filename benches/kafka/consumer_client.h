// A member of a consumer group (KIP-848) on a connection of its own: ConsumerGroupHeartbeat v1, as a
// consumer sends it. It subscribes to one topic, says once what it owns when that has changed, and
// gives up at once what is taken back.
#ifndef PYKCOORD_BENCHES_CONSUMER_CLIENT_H
#define PYKCOORD_BENCHES_CONSUMER_CLIENT_H

#include "client.h"

enum { UUID_BYTES = 16, MOST_OWNED = 2048 };

struct consumer {
    struct member base;
    int epoch;  // 0: it joins
    uint8_t topic_id[UUID_BYTES];
    int owned_count;
    int32_t *owned;
    bool owns_others;  // than it has said
};

// Joins where its epoch is 0. `base.id` must be there.
void send_beat(struct consumer *consumer);
void send_end(struct consumer *consumer);

// Takes the reply that `receive` found, and returns its error code.
int read_beat(struct consumer *consumer);

#endif
