// Kafka's GroupCoordinatorService as a whole, in process: its threads, queues, timers and batches,
// over a log in memory that is durable at once. Asked by one thread that has all of a shot's
// requests outstanding. Must change none of its defaults but the delay of a first rebalance.

package pykcoord.benches;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.share.persister.NoOpStatePersister;
import org.apache.kafka.server.util.PartitionMetadataClient;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.SystemTimerReaper;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.infra.BenchmarkParams;

@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@State(Scope.Thread)
public class Service {
    private static final int PARTITIONS = 50;

    @Param("2000")
    public int entries;
    @Param("5")
    public int each;
    private GroupCoordinatorService service;
    private final List<HeartbeatRequestData> heartbeats = new ArrayList<>();
    private final List<OffsetCommitRequestData> commits = new ArrayList<>();
    private final List<OffsetFetchRequestGroup> fetches = new ArrayList<>();
    private final RequestContext ofHeartbeat = Shard.context(ApiKeys.HEARTBEAT, (short) 3);
    private final RequestContext ofCommit = Shard.context(ApiKeys.OFFSET_COMMIT, (short) 7);
    private final RequestContext ofFetch = Shard.context(ApiKeys.OFFSET_FETCH, (short) 5);

    /** As {@link Groups.Stable}: what the benchmark asks, and nothing else. */
    @Setup(Level.Trial)
    public void open(BenchmarkParams benchmark) {
        GroupCoordinatorConfig config =
            GroupCoordinatorConfig.fromProps(Map.of("group.initial.rebalance.delay.ms", 0));
        service = new GroupCoordinatorService.Builder(1, config)
            .withWriter(new Memory())
            .withLoader(new NothingToLoad())
            .withTime(Time.SYSTEM)
            .withTimer(new SystemTimerReaper("service", new SystemTimer("service")))
            .withCoordinatorRuntimeMetrics(new GroupCoordinatorRuntimeMetrics(new Metrics()))
            .withGroupCoordinatorMetrics(new GroupCoordinatorMetrics())
            .withGroupConfigManager(new GroupConfigManager(
                config, ShareGroupConfig.fromProps(Map.of())))
            .withPersister(new NoOpStatePersister())
            .withAuthorizerPlugin(Optional.empty())
            .withPartitionMetadataClient(new NoMetadata())
            .build();
        service.startup(() -> PARTITIONS);
        for (int partition = 0; partition < PARTITIONS; partition++) {
            service.onElection(partition, 0);
        }
        List<Shard.Member> members = joinAll(Shard.joins(0, entries));
        Collections.shuffle(members, new Random(5));
        boolean beats = benchmark.getBenchmark().endsWith(".heartbeat");
        for (Shard.Member joined : members) {
            Shard.Member member = joined.decoded();
            if (beats) {
                heartbeats.add(Shard.heartbeat(member));
            } else {
                commits.add(Groups.commit(member, each));
            }
        }
        commit();
        if (benchmark.getBenchmark().endsWith(".fetch")) {
            commits.clear();
            members.forEach(joined -> fetches.add(Groups.fetch(joined.decoded(), each)));
        }
    }

    private List<Shard.Member> joinAll(List<JoinGroupRequestData> joins) {
        RequestContext context = Shard.context(ApiKeys.JOIN_GROUP, (short) 3);
        List<JoinGroupResponseData> joined = all(joins,
            join -> service.joinGroup(context, join, BufferSupplier.NO_CACHING));
        List<Shard.Member> members = new ArrayList<>(joins.size());
        for (int index = 0; index < joins.size(); index++) {
            Shard.check(joined.get(index).errorCode());
            members.add(new Shard.Member(
                joins.get(index).groupId(), joined.get(index).memberId()));
        }
        RequestContext ofSync = Shard.context(ApiKeys.SYNC_GROUP, (short) 3);
        List<SyncGroupResponseData> synced = all(members, member ->
            service.syncGroup(ofSync, Shard.sync(member), BufferSupplier.NO_CACHING));
        synced.forEach(answer -> Shard.check(answer.errorCode()));
        return members;
    }

    /** The answers, in the order of the requests. */
    private static <Q, A> List<A> all(
            List<Q> requests, Function<Q, CompletableFuture<A>> ask) {
        List<CompletableFuture<A>> futures = new ArrayList<>(requests.size());
        for (Q request : requests) {
            futures.add(ask.apply(request));
        }
        List<A> answers = new ArrayList<>(requests.size());
        for (CompletableFuture<A> future : futures) {
            answers.add(future.join());
        }
        return answers;
    }

    @TearDown(Level.Trial)
    public void close() {
        service.shutdown();
    }

    @Benchmark
    public int heartbeat() {
        List<HeartbeatResponseData> answers =
            all(heartbeats, request -> service.heartbeat(ofHeartbeat, request));
        answers.forEach(answer -> Shard.check(answer.errorCode()));
        return answers.size();
    }

    @Benchmark
    public int commit() {
        var answers = all(commits,
            request -> service.commitOffsets(ofCommit, request, BufferSupplier.NO_CACHING));
        answers.forEach(answer ->
            Shard.check(answer.topics().get(0).partitions().get(0).errorCode()));
        return answers.size();
    }

    @Benchmark
    public long fetch() {
        long sum = 0;
        for (var answer : all(fetches, group -> service.fetchOffsets(ofFetch, group, false))) {
            sum += answer.topics().get(0).partitions().get(0).committedOffset();
        }
        if (sum != 1_000_000L * entries) {
            throw new IllegalStateException("not all offsets were there");
        }
        return sum;
    }

    /** Keeps nothing of what is written but where it ends. */
    private static final class Memory implements PartitionWriter {
        private final Map<TopicPartition, Listener> listeners = new ConcurrentHashMap<>();
        private final Map<TopicPartition, Long> ends = new ConcurrentHashMap<>();
        private final LogConfig config = new LogConfig(Map.of());

        @Override
        public void registerListener(TopicPartition partition, Listener listener) {
            listeners.put(partition, listener);
        }

        @Override
        public void deregisterListener(TopicPartition partition, Listener listener) {
            listeners.remove(partition);
        }

        @Override
        public LogConfig config(TopicPartition partition) {
            return config;
        }

        @Override
        public long append(TopicPartition partition, VerificationGuard guard,
                MemoryRecords records, short transactionVersion) {
            long count = 0;
            for (RecordBatch batch : records.batches()) {
                count += batch.lastOffset() - batch.baseOffset() + 1;
            }
            long end = ends.merge(partition, count, Long::sum);
            listeners.get(partition).onHighWatermarkUpdated(partition, end);
            return end;
        }

        @Override
        public CompletableFuture<VerificationGuard> maybeStartTransactionVerification(
                TopicPartition partition, String transactionalId, long producerId,
                short producerEpoch, int apiVersion) {
            throw new IllegalStateException("no transaction is begun");
        }

        @Override
        public CompletableFuture<Void> deleteRecords(TopicPartition partition, long before) {
            throw new IllegalStateException("nothing is deleted");
        }
    }

    private static final class NothingToLoad implements CoordinatorLoader<CoordinatorRecord> {
        @Override
        public CompletableFuture<LoadSummary> load(
                TopicPartition partition, CoordinatorPlayback<CoordinatorRecord> playback) {
            return CompletableFuture.completedFuture(new LoadSummary(0, 0, 0, 0, 0));
        }

        @Override
        public void close() { }
    }

    private static final class NoMetadata implements PartitionMetadataClient {
        @Override
        public Map<TopicPartition, CompletableFuture<OffsetResponse>> listLatestOffsets(
                Set<TopicPartition> partitions) {
            return Map.of();
        }

        @Override
        public void close() { }
    }
}
