// Kafka's GroupCoordinatorShard with all it needs, on one thread: a timer that is Kafka's own, and
// what its runtime does with the records of a batch (apply, serialize, build). Must add no work
// that the runtime does not do.

package pykcoord.benches;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.timeline.SnapshotRegistry;

final class Shard implements AutoCloseable {
    static final int BATCH = 256;
    private static final int BATCH_BYTES = 1 << 20;
    /** Records between two snapshots of a load, as in CoordinatorLoaderImpl. */
    private static final int COMMIT_INTERVAL = 16_384;
    private static final byte[] SUBSCRIPTION = new byte[64];
    private static final byte[] ASSIGNMENT = new byte[48];

    record Member(String groupId, String memberId) {
        /** With strings of its own, as a request that was decoded has, and not the shard's. */
        Member decoded() {
            return new Member(copy(groupId), copy(memberId));
        }

        private static String copy(String text) {
            return new String(text.toCharArray());
        }
    }

    private final SnapshotRegistry snapshots;
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final ByteBuffer buffer = ByteBuffer.allocate(BATCH_BYTES);
    private final Timer timer = new Timer();
    private final Map<ApiKeys, RequestContext> contexts = new HashMap<>();
    final GroupCoordinatorShard coordinator;
    private MemoryRecordsBuilder builder;
    private long offset;

    Shard() {
        this(CoordinatorMetadataImage.EMPTY);
    }

    /** One that knows topics, for consumer groups. */
    Shard(CoordinatorMetadataImage topics) {
        this(topics, new SnapshotRegistry(new LogContext()));
    }

    private Shard(CoordinatorMetadataImage topics, SnapshotRegistry snapshots) {
        this.snapshots = snapshots;
        Map<String, Object> properties = Map.of(
            "group.initial.rebalance.delay.ms", 0, "group.consumer.assignment.interval.ms", 0);
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(properties);
        GroupConfigManager groups =
            new GroupConfigManager(config, ShareGroupConfig.fromProps(Map.of()));
        TopicPartition partition = new TopicPartition("__consumer_offsets", 0);
        GroupCoordinatorShard.Builder shard = new GroupCoordinatorShard.Builder(config, groups);
        shard.withAuthorizerPlugin(Optional.empty());
        coordinator = shard
            .withLogContext(new LogContext())
            .withSnapshotRegistry(snapshots)
            .withTime(Time.SYSTEM)
            .withTimer(timer)
            .withExecutor(new NoExecutor())
            .withCoordinatorMetrics(new GroupCoordinatorMetrics())
            .withTopicPartition(partition)
            .build();
        coordinator.onLoaded(topics);
        for (ApiKeys key : List.of(ApiKeys.JOIN_GROUP, ApiKeys.SYNC_GROUP, ApiKeys.HEARTBEAT,
                ApiKeys.OFFSET_COMMIT, ApiKeys.CONSUMER_GROUP_HEARTBEAT)) {
            short version = switch (key) {
                case OFFSET_COMMIT -> 7;
                case CONSUMER_GROUP_HEARTBEAT -> 1;
                default -> 3;
            };
            contexts.put(key, context(key, version));
        }
    }

    /**
     * One for very many groups. A registry looks through all that it has after each 10,000 that it
     * is given, which is 500 groups: time that grows with the square of them. This one never does.
     * Requests that make nothing new are not affected.
     */
    static Shard ofMany(CoordinatorMetadataImage topics) {
        return new Shard(topics, new SnapshotRegistry(new LogContext(), Integer.MAX_VALUE));
    }

    RequestContext context(ApiKeys key) {
        return contexts.get(key);
    }

    static RequestContext context(ApiKeys key, short version) {
        return new RequestContext(
            new RequestHeader(key, version, "orders-service-1", 7), "connection",
            InetAddress.getLoopbackAddress(), KafkaPrincipal.ANONYMOUS,
            new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, false);
    }

    /** Applies and serializes what a request wrote, as CoordinatorRuntime does. */
    <T> T write(CoordinatorResult<T, CoordinatorRecord> result) {
        for (CoordinatorRecord record : result.records()) {
            if (builder == null) {
                buffer.clear();
                builder = MemoryRecords.builder(
                    buffer, Compression.NONE, TimestampType.CREATE_TIME, offset);
            }
            if (result.replayRecords()) {
                coordinator.replay(offset, -1L, (short) -1, record);
            }
            builder.append(0L, serde.serializeKey(record), serde.serializeValue(record));
            offset++;
        }
        if (result.appendFuture() != null) {
            result.appendFuture().complete(null);
        }
        return result.response();
    }

    /** Applies records that are in the log. */
    void load(List<CoordinatorRecord> records) {
        for (CoordinatorRecord record : records) {
            coordinator.replay(offset, -1L, (short) -1, record);
            offset++;
        }
        commit(offset);
    }

    long endOffset() {
        return offset;
    }

    /** Ends the batch: it counts as durable at once. */
    void flush() {
        if (builder != null) {
            builder.build();
            builder = null;
            commit(offset);
        }
    }

    /** Runs timers that are due until every answer is there. */
    void settle(List<? extends CompletableFuture<?>> answers) {
        for (CompletableFuture<?> answer : answers) {
            while (!answer.isDone()) {
                Runnable due = timer.due.poll();
                if (due == null) {
                    timer.advance();
                } else {
                    due.run();
                }
            }
        }
        flush();
    }

    static JoinGroupRequestData join(String groupId) {
        JoinGroupRequestData.JoinGroupRequestProtocolCollection protocols =
            new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol()
            .setName("range").setMetadata(SUBSCRIPTION));
        return new JoinGroupRequestData()
            .setGroupId(groupId).setSessionTimeoutMs(45_000).setRebalanceTimeoutMs(300_000)
            .setMemberId("").setProtocolType("consumer").setProtocols(protocols);
    }

    static SyncGroupRequestData sync(Member member) {
        return new SyncGroupRequestData()
            .setGroupId(member.groupId()).setGenerationId(1).setMemberId(member.memberId())
            .setProtocolType("consumer").setProtocolName("range")
            .setAssignments(List.of(new SyncGroupRequestData.SyncGroupRequestAssignment()
                .setMemberId(member.memberId()).setAssignment(ASSIGNMENT)));
    }

    static HeartbeatRequestData heartbeat(Member member) {
        return new HeartbeatRequestData()
            .setGroupId(member.groupId()).setGenerationId(1).setMemberId(member.memberId());
    }

    /** Joins and syncs groups that nobody was in. */
    List<Member> joinAll(List<JoinGroupRequestData> joins) {
        List<Member> members = new ArrayList<>(joins.size());
        for (int from = 0; from < joins.size(); from += BATCH) {
            List<JoinGroupRequestData> some =
                joins.subList(from, Math.min(from + BATCH, joins.size()));
            List<CompletableFuture<JoinGroupResponseData>> joined = new ArrayList<>();
            for (JoinGroupRequestData join : some) {
                CompletableFuture<JoinGroupResponseData> answer = new CompletableFuture<>();
                joined.add(answer);
                write(coordinator.classicGroupJoin(
                    context(ApiKeys.JOIN_GROUP), join, answer, true));
            }
            settle(joined);
            List<CompletableFuture<SyncGroupResponseData>> synced = new ArrayList<>();
            for (int index = 0; index < some.size(); index++) {
                JoinGroupResponseData response = joined.get(index).join();
                check(response.errorCode());
                Member member = new Member(some.get(index).groupId(), response.memberId());
                members.add(member);
                CompletableFuture<SyncGroupResponseData> answer = new CompletableFuture<>();
                synced.add(answer);
                write(coordinator.classicGroupSync(
                    context(ApiKeys.SYNC_GROUP), sync(member), answer));
            }
            settle(synced);
            synced.forEach(answer -> check(answer.join().errorCode()));
        }
        return members;
    }

    static List<JoinGroupRequestData> joins(int first, int count) {
        List<JoinGroupRequestData> joins = new ArrayList<>(count);
        for (int index = first; index < first + count; index++) {
            joins.add(join(String.format("orders-app-%07d", index)));
        }
        return joins;
    }

    static void check(short errorCode) {
        if (errorCode != 0) {
            throw new IllegalStateException("error code " + errorCode);
        }
    }

    /** Reads a log as Kafka's loader does; returns how many records it had. */
    int load(ByteBuffer log) {
        int records = 0;
        int committed = 0;
        for (var batch : MemoryRecords.readableRecords(log.duplicate()).batches()) {
            try (var iterator = batch.streamingIterator(
                    org.apache.kafka.common.utils.internals.BufferSupplier.NO_CACHING)) {
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    coordinator.replay(record.offset(), batch.producerId(), batch.producerEpoch(),
                        serde.deserialize(record.key(), record.value()));
                    records++;
                }
            }
            if (records - committed >= COMMIT_INTERVAL) {
                committed = records;
                commit(committed);
            }
        }
        commit(records);
        return records;
    }

    private void commit(long end) {
        snapshots.idempotentCreateSnapshot(end);
        snapshots.deleteSnapshotsUpTo(end);
    }

    @Override
    public void close() {
        try {
            timer.system.close();
        } catch (RuntimeException error) {
            throw error;
        } catch (Exception error) {
            throw new UncheckedIOException(new IOException(error));
        }
    }

    /** As the runtime's: a task under each key, over a SystemTimer; what is due comes by a queue. */
    private final class Timer implements CoordinatorTimer<CoordinatorRecord> {
        final SystemTimer system = new SystemTimer("shard");
        final ConcurrentLinkedQueue<Runnable> due = new ConcurrentLinkedQueue<>();
        private final Map<String, TimerTask> tasks = new HashMap<>();

        /** What Kafka's reaper thread does. */
        void advance() {
            try {
                system.advanceClock(0);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }

        @Override
        public void schedule(String key, long delay, TimeUnit unit, boolean retry,
                TimeoutOperation<CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, 500L, operation);
        }

        @Override
        public void schedule(String key, long delay, TimeUnit unit, boolean retry,
                long retryBackoff, TimeoutOperation<CoordinatorRecord> operation) {
            TimerTask task = new TimerTask(unit.toMillis(delay)) {
                @Override
                public void run() {
                    due.add(() -> {
                        if (tasks.remove(key, this)) {
                            write(operation.generateRecords());
                        }
                    });
                }
            };
            TimerTask previous = tasks.put(key, task);
            if (previous != null) {
                previous.cancel();
            }
            system.add(task);
        }

        @Override
        public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry,
                TimeoutOperation<CoordinatorRecord> operation) {
            if (!tasks.containsKey(key)) {
                schedule(key, delay, unit, retry, 500L, operation);
            }
        }

        @Override
        public void cancel(String key) {
            TimerTask previous = tasks.remove(key);
            if (previous != null) {
                previous.cancel();
            }
        }

        @Override
        public boolean isScheduled(String key) {
            return tasks.containsKey(key);
        }
    }

    private static final class NoExecutor implements CoordinatorExecutor<CoordinatorRecord> {
        @Override
        public <R> boolean schedule(
                String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            throw new IllegalStateException("what is measured runs nothing beside the shard");
        }

        @Override
        public boolean isScheduled(String key) {
            return false;
        }

        @Override
        public void cancel(String key) { }
    }
}
