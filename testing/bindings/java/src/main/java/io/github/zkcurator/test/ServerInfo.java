package io.github.zkcurator.test;

import java.util.List;
import java.util.OptionalInt;

/** The state of a server or of an ensemble. */
public final class ServerInfo {
    private final String connectString;
    private final OptionalInt leader;
    private final List<Member> members;

    ServerInfo(Fields info) {
        connectString = info.text("connect_string");
        leader = info.has("leader") ? OptionalInt.of(info.number("leader")) : OptionalInt.empty();
        members = info.objects("members", Member::new);
    }

    /**
     * Returns the connect string of all members.
     *
     * @return addresses, separated by commas
     */
    public String getConnectString() {
        return connectString;
    }

    /**
     * Returns the leader.
     *
     * @return the number of the member from 0; empty if there is none
     */
    public OptionalInt getLeader() {
        return leader;
    }

    /**
     * Returns all members, including stopped ones.
     *
     * @return the members by number
     */
    public List<Member> getMembers() {
        return members;
    }

    /** A member of an ensemble, or the only server. */
    public static final class Member {
        private final String address;
        private final String role;
        private final long behind;

        Member(Fields member) {
            address = member.text("address");
            role = member.text("role");
            behind = member.integer("behind");
        }

        /**
         * Returns the address for clients.
         *
         * @return the host and the port
         */
        public String getAddress() {
            return address;
        }

        /**
         * Returns the role.
         *
         * @return {@code standalone}, {@code leader}, {@code follower}, {@code read-only},
         *     {@code looking} or {@code stopped}
         */
        public String getRole() {
            return role;
        }

        /**
         * Returns how far its state is behind.
         *
         * @return the number of transactions that it has not applied
         */
        public long getBehind() {
            return behind;
        }

        /** Returns the address and the role. */
        @Override
        public String toString() {
            return address + " " + role + (behind > 0 ? ", " + behind + " behind" : "");
        }
    }
}
