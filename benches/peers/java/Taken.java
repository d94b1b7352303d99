import java.util.BitSet;

/** Items in the order in which they were handed over. */
final class Taken {
    private final boolean byPriority;
    private final boolean ordered;
    private final BitSet distinct = new BitSet();
    private int items;
    private boolean inOrder = true;
    private Item last;

    /** Whether priorities go first, and whether there is an order at all. */
    Taken(boolean byPriority, boolean ordered) {
        this.byPriority = byPriority;
        this.ordered = ordered;
    }

    synchronized void add(Item item) {
        items++;
        distinct.set(item.index);
        if (last != null) {
            boolean later = item.index > last.index;
            inOrder &= byPriority && item.priority() != last.priority() ? item.priority() > last.priority() : later;
        }
        last = item;
    }

    synchronized int items() {
        return items;
    }

    synchronized String check() {
        String order = !ordered ? "none" : inOrder ? "ok" : "broken";
        return "items=" + items + " distinct=" + distinct.cardinality() + " order=" + order;
    }
}
