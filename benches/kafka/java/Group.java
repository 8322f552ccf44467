// A group as both sides of the comparison are given it, and what an assignor made of it. Nothing
// here is timed.

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;

/** Topics as the racks of each partition's replicas; members in the order of JoinGroup's answer. */
record Group(Map<String, List<List<String>>> topics, List<Member> members) {
    record Member(
        String id,
        String instanceId,
        String rackId,
        int generationId,
        List<String> topics,
        List<TopicPartition> owned,
        byte[] userData) {}

    static final int GENERATION = 7;

    /**
     * The group that native/bench/examples/assignors.rs makes of the same words: all members
     * subscribe to all topics (same), or each to all but one, the next with every member
     * (but-one), or each to a random half (random). What members `owned`,
     * if anything, they claim in one generation.
     */
    static Group generated(
        int members, int partitions, int topics, String kind, List<List<TopicPartition>> owned) {
        Map<String, List<List<String>>> catalogue = new LinkedHashMap<>();
        List<List<String>> racks = new ArrayList<>();
        for (int partition = 0; partition < partitions / topics; partition++) {
            racks.add(List.of());
        }
        for (int topic = 0; topic < topics; topic++) {
            catalogue.put("topic-" + topic, racks);
        }
        Subscriptions subscriptions = new Subscriptions(List.copyOf(catalogue.keySet()), kind);
        List<Member> group = new ArrayList<>();
        for (int member = 0; member < members; member++) {
            boolean isNew = owned == null || member >= owned.size();
            List<TopicPartition> claims = isNew ? List.of() : owned.get(member);
            group.add(new Member(
                "member-" + member, null, null, isNew ? -1 : GENERATION,
                subscriptions.of(member), claims,
                isNew ? null : ClientSide.stickyUserData(claims, GENERATION)));
        }
        return new Group(catalogue, group);
    }

    private static final class Subscriptions {
        private final List<String> all;
        private final String kind;
        private long state = 42;

        Subscriptions(List<String> all, String kind) {
            this.all = all;
            this.kind = kind;
        }

        /** To be asked member after member. */
        List<String> of(int member) {
            List<String> listed = new ArrayList<>();
            for (int at = 0; at < all.size(); at++) {
                switch (kind) {
                    case "same" -> {
                        return all;
                    }
                    case "but-one" -> {
                        if (at != member % all.size()) {
                            listed.add(all.get(at));
                        }
                    }
                    default -> {
                        state = state * 6364136223846793005L + 1442695040888963407L;
                        if (state < 0) {
                            listed.add(all.get(at));
                        }
                    }
                }
            }
            return listed;
        }
    }

    /** Of lists by member, in the members' order; as in native/bench/examples/assignors.rs. */
    long checksum(Map<String, List<TopicPartition>> lists) {
        long sum = 7;
        for (Member member : members) {
            for (TopicPartition partition : lists.getOrDefault(member.id(), List.of())) {
                long topic = Long.parseLong(partition.topic().substring("topic-".length()));
                sum = sum * 31 + (topic << 20) + partition.partition();
            }
            sum = sum * 31 + (0xffff_ffffL << 20) - 1;
        }
        return sum;
    }
}
