// What members ask of Kafka's shard: heartbeats, commits, fetches, in random order of their groups,
// and new groups of one that join and sync.

package pykcoord.benches;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestPartition;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestTopic;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestTopics;
import org.apache.kafka.common.protocol.ApiKeys;
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
public class Groups {
    private static final String TOPIC = "orders-placed";

    static OffsetCommitRequestData commit(Shard.Member member, int each) {
        OffsetCommitRequestTopic topic = new OffsetCommitRequestTopic().setName(TOPIC);
        for (int partition = 0; partition < each; partition++) {
            topic.partitions().add(new OffsetCommitRequestPartition()
                .setPartitionIndex(partition).setCommittedOffset(1_000_000 + partition)
                .setCommittedLeaderEpoch(3).setCommittedMetadata(""));
        }
        return new OffsetCommitRequestData()
            .setGroupId(member.groupId()).setGenerationIdOrMemberEpoch(1)
            .setMemberId(member.memberId()).setTopics(List.of(topic));
    }

    static OffsetFetchRequestGroup fetch(Shard.Member member, int each) {
        List<Integer> partitions = new ArrayList<>();
        for (int partition = 0; partition < each; partition++) {
            partitions.add(partition);
        }
        return new OffsetFetchRequestGroup().setGroupId(member.groupId()).setTopics(
            List.of(new OffsetFetchRequestTopics()
                .setName(TOPIC).setPartitionIndexes(partitions)));
    }

    @State(Scope.Thread)
    public static class Stable {
        @Param("2000")
        public int entries;
        @Param("5")
        public int each;
        Shard shard;
        List<HeartbeatRequestData> heartbeats = new ArrayList<>();
        List<OffsetCommitRequestData> commits = new ArrayList<>();
        List<OffsetFetchRequestGroup> fetches = new ArrayList<>();

        /** Holds what the benchmark asks, and nothing else: a collector pays for all there is. */
        @Setup(Level.Trial)
        public void open(BenchmarkParams benchmark) {
            shard = new Shard();
            List<Shard.Member> members = shard.joinAll(Shard.joins(0, entries));
            Collections.shuffle(members, new Random(5));
            boolean beats = benchmark.getBenchmark().endsWith(".heartbeat");
            for (Shard.Member joined : members) {
                Shard.Member member = joined.decoded();
                if (beats) {
                    heartbeats.add(Shard.heartbeat(member));
                } else {
                    commits.add(commit(member, each));
                }
            }
            commitAll();
            if (benchmark.getBenchmark().endsWith(".fetch")) {
                commits.clear();
                members.forEach(joined -> fetches.add(fetch(joined.decoded(), each)));
            }
        }

        final int commitAll() {
            int committed = 0;
            for (OffsetCommitRequestData request : commits) {
                var response = shard.write(shard.coordinator.commitOffset(
                    shard.context(ApiKeys.OFFSET_COMMIT), request));
                Shard.check(response.topics().get(0).partitions().get(0).errorCode());
                if (++committed % Shard.BATCH == 0) {
                    shard.flush();
                }
            }
            shard.flush();
            return committed;
        }

        @TearDown(Level.Trial)
        public void close() {
            shard.close();
        }
    }

    @State(Scope.Thread)
    public static class Fresh {
        @Param("1000")
        public int entries;
        Shard shard;
        List<JoinGroupRequestData> joins;

        @Setup(Level.Iteration)
        public void open() {
            shard = new Shard();
            joins = Shard.joins(0, entries);
        }

        @TearDown(Level.Iteration)
        public void close() {
            shard.close();
        }
    }

    @Benchmark
    public int heartbeat(Stable state) {
        int answered = 0;
        for (HeartbeatRequestData request : state.heartbeats) {
            Shard.check(state.shard.write(state.shard.coordinator.classicGroupHeartbeat(
                state.shard.context(ApiKeys.HEARTBEAT), request)).errorCode());
            answered++;
        }
        return answered;
    }

    @Benchmark
    public int commit(Stable state) {
        return state.commitAll();
    }

    @Benchmark
    public long fetch(Stable state) {
        long sum = 0;
        for (OffsetFetchRequestGroup request : state.fetches) {
            var response = state.shard.coordinator.fetchOffsets(request, Long.MAX_VALUE);
            sum += response.topics().get(0).partitions().get(0).committedOffset();
        }
        if (sum != 1_000_000L * state.entries) {
            throw new IllegalStateException("not all offsets were there");
        }
        return sum;
    }

    @Benchmark
    public int joinAndSync(Fresh state) {
        return state.shard.joinAll(state.joins).size();
    }
}
