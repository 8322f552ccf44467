// Heartbeats of consumer groups that change nothing, in random order of the groups; and one more
// member of a large group, with which the targets of all are computed, applied and written.

package pykcoord.benches;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
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

@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class ConsumerGroups {
    private static final String LARGE = "large";
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    @State(Scope.Thread)
    public static class Stable {
        @Param("2000")
        public int entries;
        Shard shard;
        List<ConsumerGroupHeartbeatRequestData> beats = new ArrayList<>();
        long processorNs;

        @Setup(Level.Trial)
        public void open() {
            shard = Shard.ofMany(Consumers.smallTopics());
            List<Shard.Member> members = new ArrayList<>();
            int epoch = Consumers.joinAll(shard, 0, entries, members);
            Collections.shuffle(members, new Random(5));
            members.forEach(member -> beats.add(Consumers.beat(member.decoded(), epoch)));
        }

        /** The time of this thread alone, for in_process.py: the collector has threads of its own. */
        @TearDown(Level.Iteration)
        public void tell() {
            System.out.println("processor " + processorNs + " ns");
        }

        @TearDown(Level.Trial)
        public void close() {
            shard.close();
        }
    }

    @State(Scope.Thread)
    public static class Large {
        @Param("500")
        public int entries;
        @Param("100")
        public int each;
        Shard shard;
        ConsumerGroupHeartbeatRequestData newcomer;
        private CoordinatorMetadataImage topics;

        @Setup(Level.Trial)
        public void read() {
            topics = Consumers.image(Consumers.largeTopics(), partitions());
        }

        @Setup(Level.Iteration)
        public void open() {
            shard = new Shard(topics);
            Consumers.fill(shard, LARGE, entries, partitions());
            newcomer = Consumers.join(
                LARGE, Consumers.memberId(entries), Consumers.largeTopics());
        }

        @TearDown(Level.Iteration)
        public void close() {
            shard.close();
        }

        private int partitions() {
            return entries * each / Consumers.LARGE_TOPICS;
        }
    }

    @Benchmark
    public int heartbeat(Stable state) {
        int answered = 0;
        long since = THREADS.getCurrentThreadCpuTime();
        for (ConsumerGroupHeartbeatRequestData request : state.beats) {
            Consumers.ask(state.shard, request);
            answered++;
        }
        state.processorNs = THREADS.getCurrentThreadCpuTime() - since;
        return answered;
    }

    @Benchmark
    public int target(Large state) {
        long before = state.shard.endOffset();
        int epoch = Consumers.ask(state.shard, state.newcomer).memberEpoch();
        state.shard.flush();
        if (state.shard.endOffset() - before < 10) {
            throw new IllegalStateException("no new targets");
        }
        return epoch;
    }
}
