package io.github.zkcurator.test;

import java.util.Locale;

/** An operation of a request, for {@link RuleSpec#on}. */
public enum Operation {
    /** Creates a node, of any mode. */
    CREATE,
    /** Deletes a node. */
    DELETE,
    /** Reads the metadata of a node. */
    EXISTS,
    /** Reads the data of a node. */
    GET_DATA,
    /** Writes the data of a node. */
    SET_DATA,
    /** Reads the access control list of a node. */
    GET_ACL,
    /** Writes the access control list of a node. */
    SET_ACL,
    /** Lists the children of a node, with or without metadata. */
    GET_CHILDREN,
    /** Waits until the member has applied all earlier writes. */
    SYNC,
    /** Checks the version of a node, in a transaction. */
    CHECK,
    /** A transaction. */
    MULTI,
    /** Several reads in one request. */
    MULTI_READ,
    /** Adds a persistent watch. */
    ADD_WATCH,
    /** Removes watches. */
    REMOVE_WATCHES,
    /** Checks if there are watches. */
    CHECK_WATCHES,
    /** Sets the watches of a client again after a reconnect. */
    SET_WATCHES,
    /** Adds an identity. */
    AUTH,
    /** A step of a SASL handshake. */
    SASL,
    /** The heartbeat of a session. */
    PING,
    /** Closes a session. */
    CLOSE_SESSION,
    /** Changes the ensemble. */
    RECONFIG,
    /** Lists the identities of a client. */
    WHO_AM_I,
    /** Lists the ephemeral nodes of a session. */
    GET_EPHEMERALS,
    /** Counts all nodes below a node. */
    GET_ALL_CHILDREN_NUMBER;

    /**
     * Returns the name of the operation in the control protocol.
     *
     * @return the name, such as {@code get_data}
     */
    public String protocolName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
