// Kafka's SystemTimer with the work of session timers. It runs by the machine's clock, so that
// what is to expire is waited for before it is measured.

package pykcoord.benches;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;
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
public class Timers {
    private static final int SPREAD_MS = 4_000;

    static final class Task extends TimerTask {
        private final AtomicInteger expired;

        Task(long delayMs, AtomicInteger expired) {
            super(delayMs);
            this.expired = expired;
        }

        @Override
        public void run() {
            expired.incrementAndGet();
        }
    }

    @State(Scope.Thread)
    public static class Empty {
        @Param("20000")
        public int entries;
        int[] delays;
        AtomicInteger expired;
        SystemTimer timer;
        List<Task> tasks;

        @Setup(Level.Iteration)
        public void open() {
            Random random = new Random(3);
            delays = random.ints(entries, 1, SPREAD_MS).toArray();
            expired = new AtomicInteger();
            timer = new SystemTimer("timers");
            tasks = new ArrayList<>(entries);
        }

        void addAll() {
            for (int delayMs : delays) {
                Task task = new Task(delayMs, expired);
                timer.add(task);
                tasks.add(task);
            }
        }

        @TearDown(Level.Iteration)
        public void close() throws Exception {
            timer.close();
        }
    }

    @State(Scope.Thread)
    public static class Filled extends Empty {
        @Setup(Level.Iteration)
        @Override
        public void open() {
            super.open();
            addAll();
        }
    }

    @State(Scope.Thread)
    public static class Due extends Filled {
        @Setup(Level.Iteration)
        @Override
        public void open() {
            super.open();
            try {
                Thread.sleep(SPREAD_MS + 100);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
    }

    @Benchmark
    public int add(Empty state) {
        state.addAll();
        return state.tasks.size();
    }

    @Benchmark
    public int cancel(Filled state) {
        state.tasks.forEach(TimerTask::cancel);
        return state.timer.size();
    }

    @Benchmark
    public int expire(Due state) throws InterruptedException {
        while (state.timer.size() > 0) {
            state.timer.advanceClock(0);
        }
        while (state.expired.get() < state.entries) {
            Thread.onSpinWait();
        }
        return state.expired.get();
    }
}
