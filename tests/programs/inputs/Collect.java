// Stress for a collector and for the memory that the virtual machine takes from malloc: a line for each
// piece of work, "right" if its result is what it must be.
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Collect {
    interface Work {
        boolean isRight() throws Exception;
    }

    static boolean trees() {
        long sum = 0;
        for (int turn = 0; turn < 40; turn++) {
            Map<Integer, int[]> map = new HashMap<>();
            for (int i = 0; i < 20000; i++) {
                map.put(i, new int[] {i, turn});
            }
            for (Map.Entry<Integer, int[]> entry : map.entrySet()) {
                sum += entry.getValue()[0] - entry.getKey() + entry.getValue()[1];
            }
        }
        return sum == 20000L * 39 * 40 / 2;
    }

    // Short lives beside long ones, in several threads, while somebody asks for collections.
    static boolean threads() throws Exception {
        AtomicLong wrong = new AtomicLong();
        List<Thread> all = new ArrayList<>();
        for (int t = 0; t < 6; t++) {
            final int seed = t;
            Thread thread = new Thread(() -> {
                byte[][] kept = new byte[200][];
                for (int i = 0; i < 60000; i++) {
                    int k = (i * 31 + seed) % kept.length;
                    if (kept[k] != null && (kept[k][0] != (byte) k || kept[k][kept[k].length - 1] != (byte) k)) {
                        wrong.incrementAndGet();
                    }
                    kept[k] = new byte[16 + i * 7 % 9000];
                    kept[k][0] = kept[k][kept[k].length - 1] = (byte) k;
                    if (i % 15000 == seed) {
                        System.gc();
                    }
                }
            });
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
        return wrong.get() == 0;
    }

    static boolean manyThreads() throws Exception {
        AtomicLong count = new AtomicLong();
        for (int turn = 0; turn < 50; turn++) {
            Thread[] all = new Thread[20];
            for (int i = 0; i < all.length; i++) {
                all[i] = new Thread(() -> count.addAndGet(new byte[10000].length));
                all[i].start();
            }
            for (Thread thread : all) {
                thread.join();
            }
        }
        return count.get() == 50L * 20 * 10000;
    }

    static boolean directBuffers() {
        ByteBuffer[] kept = new ByteBuffer[64];
        for (int i = 0; i < 4000; i++) {
            int k = i * 13 % kept.length;
            if (kept[k] != null && kept[k].getInt(kept[k].capacity() - 4) != k) {
                return false;
            }
            kept[k] = ByteBuffer.allocateDirect(8 + i * 977 % 200000);
            kept[k].putInt(kept[k].capacity() - 4, k);
        }
        return true;
    }

    static boolean packing() throws Exception {
        byte[] data = new byte[50000];
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) (i * i >> 5);
        }
        for (int i = 0; i < 150; i++) {
            Deflater deflater = new Deflater(1 + i % 9);
            deflater.setInput(data);
            deflater.finish();
            byte[] packed = new byte[60000];
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            byte[] back = new byte[data.length];
            boolean same = inflater.inflate(back) == data.length && Arrays.equals(data, back);
            inflater.end();
            if (!same) {
                return false;
            }
        }
        return true;
    }

    static boolean strings() {
        CRC32 sum = new CRC32();
        for (int i = 0; i < 100000; i++) {
            sum.update(("name" + i % 5000).intern().length());
        }
        long first = sum.getValue();
        sum.reset();
        for (int i = 0; i < 100000; i++) {
            sum.update(Integer.toString(i % 5000).length() + 4);
        }
        return sum.getValue() == first;
    }

    // Each loader brings the class anew: metadata that comes and goes.
    static boolean classes() throws Exception {
        byte[] code = Collect.class.getResourceAsStream("Collect$Small.class").readAllBytes();
        int sum = 0;
        for (int i = 0; i < 1500; i++) {
            Class<?> made = new ClassLoader(null) {
                Class<?> make() {
                    return defineClass("Collect$Small", code, 0, code.length);
                }
            }.make();
            sum += (Integer) made.getMethod("one").invoke(null);
        }
        return sum == 1500;
    }

    public static class Small {
        public static int one() {
            return 1;
        }
    }

    static boolean weakReferences() throws Exception {
        List<WeakReference<byte[]>> references = new ArrayList<>();
        for (int i = 0; i < 2000; i++) {
            references.add(new WeakReference<>(new byte[1000]));
        }
        for (int turn = 0; turn < 20; turn++) {
            System.gc();
            if (references.stream().allMatch(reference -> reference.get() == null)) {
                return true;
            }
            Thread.sleep(50);
        }
        return false;
    }

    static boolean outOfMemory() {
        List<byte[]> kept = new ArrayList<>();
        try {
            while (true) {
                kept.add(new byte[1 << 20]);
            }
        } catch (OutOfMemoryError expected) {
            int count = kept.size();
            kept.clear();
            return count > 10;
        }
    }

    static void tell(String name, Work work) throws Exception {
        System.out.println(name + (work.isRight() ? " right" : " wrong"));
    }

    public static void main(String[] arguments) throws Exception {
        tell("trees", Collect::trees);
        tell("threads", Collect::threads);
        tell("manyThreads", Collect::manyThreads);
        tell("directBuffers", Collect::directBuffers);
        tell("packing", Collect::packing);
        tell("strings", Collect::strings);
        tell("classes", Collect::classes);
        tell("weakReferences", Collect::weakReferences);
        tell("outOfMemory", Collect::outOfMemory);
    }
}
