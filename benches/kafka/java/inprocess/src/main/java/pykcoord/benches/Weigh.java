// Bytes of heap, after full collections, that Kafka's shard keeps of a group of one member with its
// session timer, of a committed offset at 100 a group, and of one that is the only one of its group
// (groups and members left out). Prints the three.

package pykcoord.benches;

import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestPartition;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestTopic;
import org.apache.kafka.common.protocol.ApiKeys;

public final class Weigh {
    private static final int PORTION = 500;

    public static void main(String[] arguments) {
        int groups = Integer.parseInt(arguments[0]);
        int offsetGroups = Integer.parseInt(arguments[1]);
        try (Shard shard = new Shard()) {
            List<Shard.Member> warm = join(shard, 0, PORTION);
            commit(shard, warm, 100);
            long before = heap();
            join(shard, PORTION, groups);
            long withGroups = heap();
            List<Shard.Member> many = join(shard, PORTION + groups, offsetGroups);
            long withoutOffsets = heap();
            commit(shard, many, 100);
            long withOffsets = heap();
            List<Shard.Member> members = join(
                shard, PORTION + groups + offsetGroups, groups);
            long withoutSingle = heap();
            commit(shard, members, 1);
            long withSingle = heap();
            System.out.printf("%d %d %d%n", (withGroups - before) / groups,
                (withOffsets - withoutOffsets) / (offsetGroups * 100L),
                (withSingle - withoutSingle) / groups);
        }
    }

    /** In portions: what only builds the requests must not weigh in. */
    private static List<Shard.Member> join(Shard shard, int first, int count) {
        List<Shard.Member> members = new ArrayList<>();
        for (int done = 0; done < count; done += PORTION) {
            members.addAll(
                shard.joinAll(Shard.joins(first + done, Math.min(PORTION, count - done))));
        }
        return members;
    }

    private static void commit(Shard shard, List<Shard.Member> members, int partitions) {
        for (Shard.Member member : members) {
            OffsetCommitRequestTopic topic =
                new OffsetCommitRequestTopic().setName(new String("orders-placed"));
            for (int partition = 0; partition < partitions; partition++) {
                topic.partitions().add(new OffsetCommitRequestPartition()
                    .setPartitionIndex(partition).setCommittedOffset(1_000_000 + partition)
                    .setCommittedLeaderEpoch(3).setCommittedMetadata(""));
            }
            shard.write(shard.coordinator.commitOffset(shard.context(ApiKeys.OFFSET_COMMIT),
                new OffsetCommitRequestData().setGroupId(member.groupId())
                    .setGenerationIdOrMemberEpoch(1).setMemberId(member.memberId())
                    .setTopics(List.of(topic))));
            shard.flush();
        }
    }

    static long heap() {
        Runtime runtime = Runtime.getRuntime();
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 4; round++) {
            System.gc();
            least = Math.min(least, runtime.totalMemory() - runtime.freeMemory());
        }
        return least;
    }

    private Weigh() { }
}
