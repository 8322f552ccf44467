// The two assignors of the group coordinator (KIP-848). They go through members and topics as the
// maps that they are given do, which promises nothing; here members come in the order of their
// ids, and topics in that of their names, so that results can be compared one by one.

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

final class ServerSide implements Strategy {
    private final ConsumerGroupPartitionAssignor assignor;
    /** Small numbers, which hash maps go through in their order. */
    private final Map<String, Uuid> ids = new HashMap<>();
    private final Map<Uuid, String> names = new HashMap<>();
    private final Map<Uuid, Integer> sizes = new HashMap<>();
    private final GroupSpec spec;

    ServerSide(String name, Group group) {
        assignor = name.equals("uniform") ? new UniformAssignor() : new RangeAssignor();
        new TreeMap<>(group.topics()).forEach((topic, partitions) -> {
            if (!partitions.isEmpty()) {
                Uuid id = new Uuid(0, ids.size());
                ids.put(topic, id);
                names.put(id, topic);
                sizes.put(id, partitions.size());
            }
        });
        spec = spec(group);
    }

    private GroupSpec spec(Group group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Map<List<String>, Set<Uuid>> subscriptions = new HashMap<>();
        List<Group.Member> sorted = new ArrayList<>(group.members());
        sorted.sort(Comparator.comparing(Group.Member::id));
        for (Group.Member member : sorted) {
            Set<Uuid> topics = subscriptions.computeIfAbsent(member.topics(), this::existing);
            Map<Uuid, Set<Integer>> target = new TreeMap<>();
            for (TopicPartition partition : member.owned()) {
                Uuid id = ids.get(partition.topic());
                target.computeIfAbsent(id, none -> new TreeSet<>()).add(partition.partition());
                owners.computeIfAbsent(id, none -> new HashMap<>())
                    .put(partition.partition(), member.id());
            }
            members.put(member.id(), new MemberSubscriptionAndAssignmentImpl(
                Optional.ofNullable(member.rackId()), Optional.ofNullable(member.instanceId()),
                topics, new Assignment(target)));
        }
        SubscriptionType type = new HashSet<>(subscriptions.values()).size() <= 1
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return new GroupSpecImpl(members, type, owners);
    }

    private Set<Uuid> existing(List<String> topics) {
        Set<Uuid> existing = new HashSet<>();
        topics.stream().filter(ids::containsKey).forEach(topic -> existing.add(ids.get(topic)));
        return existing;
    }

    @Override
    public GroupAssignment run() {
        return assignor.assign(spec, new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return sizes.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        });
    }

    /** What Java returns are sets; here each is a list in the order of (topic, number). */
    @Override
    public Map<String, List<TopicPartition>> lists(Object result) {
        Map<String, List<TopicPartition>> lists = new HashMap<>();
        ((GroupAssignment) result).members().forEach((member, assignment) -> {
            List<TopicPartition> list = new ArrayList<>();
            new TreeMap<>(assignment.partitions()).forEach((topic, numbers) ->
                new TreeSet<>(numbers).forEach(number ->
                    list.add(new TopicPartition(names.get(topic), number))));
            lists.put(member, list);
        });
        return lists;
    }
}
