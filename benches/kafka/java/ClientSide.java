// The four assignors of the consumer, called as ConsumerCoordinator calls them: with the cluster's
// metadata and the subscriptions in a HashMap that was filled in the order of the members.

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

final class ClientSide implements Strategy {
    private final String name;
    private final Cluster cluster;
    private final GroupSubscription subscriptions;

    ClientSide(String name, Group group) {
        this.name = name;
        this.cluster = cluster(group);
        Map<String, Subscription> byMember = new HashMap<>();
        for (Group.Member member : group.members()) {
            byMember.put(member.id(), subscription(member));
        }
        this.subscriptions = new GroupSubscription(byMember);
    }

    /** A new object each time: the sticky ones remember the highest generation that they met. */
    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Cluster cluster(Group group) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        group.topics().forEach((topic, ofTopic) -> {
            for (int number = 0; number < ofTopic.size(); number++) {
                List<Node> replicas = new ArrayList<>();
                for (String rack : ofTopic.get(number)) {
                    replicas.add(nodes.computeIfAbsent(
                        rack, known -> new Node(nodes.size(), "localhost", 1, known)));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic, number, null, all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Subscription subscription(Group.Member member) {
        ByteBuffer userData = member.userData() == null ? null : ByteBuffer.wrap(member.userData());
        Subscription subscription = new Subscription(
            member.topics(), userData, member.owned(), member.generationId(),
            Optional.ofNullable(member.rackId()).filter(rack -> !rack.isEmpty()));
        subscription.setGroupInstanceId(Optional.ofNullable(member.instanceId()));
        return subscription;
    }

    /** What StickyAssignor itself would say of these partitions. */
    @SuppressWarnings("removal") // ConsumerGroupMetadata's constructor
    static byte[] stickyUserData(List<TopicPartition> owned, int generationId) {
        StickyAssignor before = new StickyAssignor();
        before.onAssignment(
            new Assignment(owned),
            new ConsumerGroupMetadata("group", generationId, "", Optional.empty()));
        return before.subscriptionUserData(Set.of()).array();
    }

    @Override
    public GroupAssignment run() {
        // Reading user data uses it up.
        for (Subscription subscription : subscriptions.groupSubscription().values()) {
            if (subscription.userData() != null) {
                subscription.userData().rewind();
            }
        }
        return assignor(name).assign(cluster, subscriptions);
    }

    @Override
    public Map<String, List<TopicPartition>> lists(Object result) {
        Map<String, List<TopicPartition>> lists = new HashMap<>();
        ((GroupAssignment) result).groupAssignment()
            .forEach((member, assignment) -> lists.put(member, assignment.partitions()));
        return lists;
    }
}
