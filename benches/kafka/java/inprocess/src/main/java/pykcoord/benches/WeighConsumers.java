// Bytes of heap, after full collections, that Kafka's shard keeps of a consumer group of one member
// with 64 bytes of subscription, ten partitions and its session timer. Prints them.

package pykcoord.benches;

public final class WeighConsumers {
    private static final int WARM_UP = 500;

    public static void main(String[] arguments) {
        int groups = Integer.parseInt(arguments[0]);
        try (Shard shard = Consumers.small()) {
            Consumers.joinAll(shard, 0, WARM_UP, null);
            long before = Weigh.heap();
            Consumers.joinAll(shard, WARM_UP, groups, null);
            System.out.println((Weigh.heap() - before) / groups);
        }
    }

    private WeighConsumers() { }
}
