package io.github.zkcurator.test;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;

/**
 * A ZooKeeper ensemble in memory, in one process, and the faults that a test can cause in its members.
 * Members are numbered from 0. The methods of {@link ZkTestServer} are about all members.
 *
 * <p>Methods with the number of a member throw {@link ControlException} with
 * {@link ErrorCode#NO_SUCH_MEMBER} if the ensemble does not have it. An ensemble of one member is a
 * standalone server: {@code split}, {@code lag} and {@code changeLeader} are
 * {@link ErrorCode#UNSUPPORTED} then.
 */
public final class ZkTestCluster extends ZkTestServer {
    private static final int CONS_TIMEOUT_MILLIS = 10_000;

    private final int members;

    /**
     * Starts an ensemble with the defaults.
     *
     * @param members the number of members, from 1 to 99
     * @throws ServerStartException if it cannot start
     * @throws IllegalArgumentException if the number is less than 1
     */
    public ZkTestCluster(int members) {
        this(builder(), members);
    }

    /**
     * Starts an ensemble.
     *
     * @param builder the settings; later changes have no effect
     * @param members the number of members, from 1 to 99
     * @throws ServerStartException if it cannot start
     * @throws IllegalArgumentException if the number is less than 1
     */
    public ZkTestCluster(Builder builder, int members) {
        super(builder, Values.atLeast(1, "start", "the number of members", members));
        this.members = members;
    }

    /**
     * Returns the number of members.
     *
     * @return the number, including stopped members
     */
    public int getMembers() {
        return members;
    }

    /**
     * Returns the connect string of one member.
     *
     * @param member the number of the member
     * @return its address
     * @throws IndexOutOfBoundsException if the ensemble does not have this member
     */
    public String getConnectString(int member) {
        return addresses().get(member);
    }

    /**
     * Returns the leader.
     *
     * @return the number of the member; empty if there is none
     */
    public OptionalInt leader() {
        return info().getLeader();
    }

    /**
     * Stops a member: its connections end, its port is closed, its data stays.
     *
     * @param member the number of the member
     */
    public void stop(int member) {
        control().call("stop", "member", member);
    }

    /**
     * Starts a member on the same port. Has no effect if it runs.
     *
     * @param member the number of the member
     * @throws ControlException with {@link ErrorCode#FAILED} if the port is in use
     */
    public void start(int member) {
        control().call("start", "member", member);
    }

    /**
     * Ends all connections of a member, and starts it again.
     *
     * @param member the number of the member
     * @throws ControlException with {@link ErrorCode#FAILED} if the port is in use
     */
    public void restart(int member) {
        control().call("restart", "member", member);
    }

    /**
     * Makes a member hang: it accepts connections and bytes, and answers nothing.
     *
     * @param member the number of the member
     */
    public void pause(int member) {
        control().call("pause", "member", member);
    }

    /**
     * Ends {@link #pause(int)}.
     *
     * @param member the number of the member
     */
    public void resume(int member) {
        control().call("resume", "member", member);
    }

    /**
     * Cuts the network between a member and its clients: bytes wait, and sessions expire.
     *
     * @param member the number of the member
     */
    public void partition(int member) {
        control().call("partition", "member", member);
    }

    /**
     * Ends {@link #partition(int)}.
     *
     * @param member the number of the member
     */
    public void heal(int member) {
        control().call("heal", "member", member);
    }

    /**
     * Cuts the network between sides of the ensemble. {@link #heal()} ends it.
     *
     * <pre>{@code
     * cluster.split(new int[] {0}, new int[] {1, 2});
     * }</pre>
     *
     * @param sides the members of each side
     * @throws ControlException with {@link ErrorCode#BAD_REQUEST} if the server does not accept the sides
     */
    public void split(int[]... sides) {
        List<Object> lists = new ArrayList<>();
        for (int[] side : sides) {
            List<Object> list = new ArrayList<>();
            for (int member : side) {
                list.add(member);
            }
            lists.add(list);
        }
        control().call("split", "sides", lists);
    }

    /**
     * Makes a member serve as without a quorum, or ends that.
     *
     * @param member the number of the member
     * @param readOnly {@code true} for read-only
     */
    public void setReadOnly(int member, boolean readOnly) {
        control().call("set_read_only", "member", member, "read_only", readOnly);
    }

    /**
     * Makes a member apply no commits until the lag ends.
     *
     * @param member the number of the member
     * @return the lag, which {@link Lag#close} ends
     */
    public Lag lag(int member) {
        return new Lag(this, control().call("lag", "member", member).integer("lag"));
    }

    /**
     * Makes a member apply commits later.
     *
     * @param member the number of the member
     * @param delay from 0 to 4,294,967,295 ms, rounded up to milliseconds
     * @return the lag, which {@link Lag#close} ends
     * @throws IllegalArgumentException if the delay is out of range
     */
    public Lag lag(int member, Duration delay) {
        long millis = Values.millis("lag", delay);
        return new Lag(this, control().call("lag", "member", member, "delay_ms", millis).integer("lag"));
    }

    /**
     * Elects another leader.
     *
     * @return the number of the new leader
     * @throws ControlException with {@link ErrorCode#FAILED} if no other member can lead
     */
    public int changeLeader() {
        return control().call("change_leader").number("leader");
    }

    /**
     * Elects a member as leader.
     *
     * @param member the number of the member
     * @return the same number
     * @throws ControlException with {@link ErrorCode#FAILED} if the member cannot lead
     */
    public int changeLeader(int member) {
        return control().call("change_leader", "member", member).number("leader");
    }

    /**
     * Returns the present state of a member, which can be older than that of the leader.
     *
     * @param member the number of the member
     * @return nodes, sessions, watches and counts
     */
    public Probe probe(int member) {
        return new Probe(control().call("probe", "member", member));
    }

    /**
     * Returns the member that a client is connected to. Asks each member with the four-letter word
     * {@code cons}; a member that is paused or partitioned delays the call by up to 10 s.
     *
     * @param client the client
     * @return the number of the member; empty if the client has no connection
     * @throws IllegalStateException if the client has no session
     */
    public OptionalInt connectedMember(HasSession client) {
        String session = "sid=" + Values.session("connectedMember", client) + ",";
        for (int member = 0; member < members; member++) {
            if (connections(member).contains(session)) {
                return OptionalInt.of(member);
            }
        }
        return OptionalInt.empty();
    }

    private String connections(int member) {
        String address = addresses().get(member);
        String host = address.substring(0, address.lastIndexOf(':')).replaceAll("[\\[\\]]", "");
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(host, ServerProcess.port(address)), CONS_TIMEOUT_MILLIS);
            socket.setSoTimeout(CONS_TIMEOUT_MILLIS);
            OutputStream out = socket.getOutputStream();
            out.write("cons".getBytes(StandardCharsets.US_ASCII));
            out.flush();
            InputStream in = socket.getInputStream();
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            // A member that does not answer, because it is stopped or paused.
            return "";
        }
    }
}
