// Consumer groups of Kafka's shard: topics, what members say, and a large group that has its targets.

package pykcoord.benches;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

final class Consumers {
    /** Of 64 bytes. */
    static final String TOPIC =
        "orders-placed-by-customers-of-the-shop-in-all-countries-served-1";
    static final int LARGE_TOPICS = 50;
    private static final int EPOCH = 7;

    static CoordinatorMetadataImage image(List<String> topics, int partitions) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (String topic : topics) {
            Uuid id = id(topic);
            delta.replay(new TopicRecord().setName(topic).setTopicId(id));
            for (int partition = 0; partition < partitions; partition++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(List.of(1)).setIsr(List.of(1)).setLeader(1));
            }
        }
        return new KRaftCoordinatorMetadataImage(
            delta.apply(new MetadataProvenance(1, 1, 1, true)));
    }

    private static Uuid id(String topic) {
        return new Uuid(77, topic.hashCode());
    }

    static String memberId(int index) {
        return String.format("XyAbCdEfGhIjKl%08d", index);
    }

    static ConsumerGroupHeartbeatRequestData join(
            String groupId, String memberId, List<String> topics) {
        return new ConsumerGroupHeartbeatRequestData()
            .setGroupId(groupId).setMemberId(memberId).setMemberEpoch(0)
            .setRebalanceTimeoutMs(300_000).setSubscribedTopicNames(topics)
            .setTopicPartitions(List.of());
    }

    static ConsumerGroupHeartbeatRequestData beat(Shard.Member member, int epoch) {
        return new ConsumerGroupHeartbeatRequestData()
            .setGroupId(member.groupId()).setMemberId(member.memberId()).setMemberEpoch(epoch);
    }

    static ConsumerGroupHeartbeatResponseData ask(
            Shard shard, ConsumerGroupHeartbeatRequestData request) {
        var response = shard.write(shard.coordinator.consumerGroupHeartbeat(
            shard.context(ApiKeys.CONSUMER_GROUP_HEARTBEAT), request));
        Shard.check(response.errorCode());
        return response;
    }

    static Shard small() {
        return new Shard(smallTopics());
    }

    static CoordinatorMetadataImage smallTopics() {
        return image(List.of(TOPIC), 10);
    }

    /** Groups of one that have joined; all members are of the epoch that is returned with them. */
    static int joinAll(Shard shard, int first, int count, List<Shard.Member> members) {
        int epoch = 0;
        for (int index = first; index < first + count; index++) {
            var request = join(
                String.format("orders-app-%07d", index), memberId(index),
                List.of(new String(TOPIC.toCharArray())));
            epoch = ask(shard, request).memberEpoch();
            if (members != null) {
                members.add(new Shard.Member(request.groupId(), request.memberId()));
            }
            if ((index + 1) % Shard.BATCH == 0) {
                shard.flush();
            }
        }
        shard.flush();
        return epoch;
    }

    static List<String> largeTopics() {
        List<String> topics = new ArrayList<>();
        for (int topic = 0; topic < LARGE_TOPICS; topic++) {
            topics.add(String.format("topic-%02d", topic));
        }
        return topics;
    }

    /** All members of a group but the last; each has what is its target, of `partitions` each topic. */
    static void fill(Shard shard, String groupId, int members, int partitions) {
        List<String> topics = largeTopics();
        List<Map<Uuid, Set<Integer>>> targets = new ArrayList<>();
        for (int member = 0; member < members - 1; member++) {
            targets.add(new HashMap<>());
        }
        List<CoordinatorRecord> records = new ArrayList<>();
        int at = 0;
        for (String topic : topics) {
            for (int partition = 0; partition < partitions; partition++) {
                targets.get(at++ % targets.size())
                    .computeIfAbsent(id(topic), unused -> new HashSet<>()).add(partition);
            }
        }
        for (int index = 0; index < targets.size(); index++) {
            Map<Uuid, Map<Integer, Integer>> owned = new HashMap<>();
            targets.get(index).forEach((topic, of) -> {
                Map<Integer, Integer> epochs = new HashMap<>();
                of.forEach(partition -> epochs.put(partition, EPOCH));
                owned.put(topic, epochs);
            });
            ConsumerGroupMember member = new ConsumerGroupMember.Builder(memberId(index))
                .setClientId("orders-service-1").setClientHost("/127.0.0.1")
                .setRebalanceTimeoutMs(300_000).setSubscribedTopicNames(topics)
                .setState(MemberState.STABLE).setMemberEpoch(EPOCH).setPreviousMemberEpoch(EPOCH)
                .setAssignedPartitions(owned).build();
            records.add(GroupCoordinatorRecordHelpers
                .newConsumerGroupMemberSubscriptionRecord(groupId, member));
            if (index == 0) {
                records.add(GroupCoordinatorRecordHelpers
                    .newConsumerGroupEpochRecord(groupId, EPOCH, 0));
            }
            records.add(GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord(
                groupId, member.memberId(), targets.get(index)));
            records.add(GroupCoordinatorRecordHelpers
                .newConsumerGroupCurrentAssignmentRecord(groupId, member));
        }
        records.add(GroupCoordinatorRecordHelpers
            .newConsumerGroupTargetAssignmentMetadataRecord(groupId, EPOCH, 1));
        shard.load(records);
    }

    private Consumers() { }
}
