import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.curator.framework.recipes.queue.QueueSerializer;

/** An item of a queue: its index, padded to the length of a payload. */
final class Item {
    private static final int PRIORITIES = 10;

    final int index;
    /** When it was put. */
    volatile long sent;

    Item(int index) {
        this.index = index;
    }

    int priority() {
        return index % PRIORITIES;
    }

    byte[] bytes(int length) {
        byte[] digits = Integer.toString(index).getBytes(StandardCharsets.US_ASCII);
        byte[] bytes = Arrays.copyOf(digits, Math.max(length, digits.length));
        Arrays.fill(bytes, digits.length, bytes.length, (byte) ' ');
        return bytes;
    }

    static Item of(byte[] bytes) {
        return new Item(Integer.parseInt(new String(bytes, StandardCharsets.US_ASCII).trim()));
    }

    static QueueSerializer<Item> serializer(int length) {
        return new QueueSerializer<>() {
            @Override
            public byte[] serialize(Item item) {
                return item.bytes(length);
            }

            @Override
            public Item deserialize(byte[] bytes) {
                return of(bytes);
            }
        };
    }
}
