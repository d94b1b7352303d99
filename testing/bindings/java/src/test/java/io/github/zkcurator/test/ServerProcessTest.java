package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Programs that are not what they should be. */
@Timeout(60)
class ServerProcessTest {
    @TempDir
    Path directory;

    private ServerStartException fails(String script) throws IOException {
        return fails(script, Duration.ofSeconds(30));
    }

    private ServerStartException fails(String script, Duration timeout) throws IOException {
        Path program = directory.resolve("program");
        Files.writeString(program, "#!/bin/sh\n" + script);
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwx------"));
        ZkTestServer.Builder builder = ZkTestServer.builder().binary(program).startTimeout(timeout);
        ServerStartException error = assertThrows(ServerStartException.class, builder::launch);
        assertTrue(error.getMessage().startsWith("start: "), error.getMessage());
        return error;
    }

    @Test
    void theReasonOfAFailureIsReported() throws IOException {
        String message = fails("echo 'program: the port is in use' >&2; exit 2").getMessage();
        assertTrue(message.endsWith("exit code 2; it wrote: program: the port is in use"), message);
    }

    @Test
    void aSilentProgramIsGivenUp() throws IOException {
        String message = fails("exec cat", Duration.ofMillis(50)).getMessage();
        assertTrue(message.endsWith("was not ready within 50 ms"), message);
    }

    @Test
    void anotherProgramIsRefused() throws IOException {
        String message = fails("echo Usage: something; exec cat").getMessage();
        assertTrue(message.endsWith(": Usage: something"), message);
        message = fails("echo 'control on 127.0.0.1:port'; exec cat").getMessage();
        assertTrue(message.contains("does not end with a port"), message);
    }

    @Test
    void aProgramIsGivenItsOptionsAndASecret() throws IOException {
        String message = fails("echo \"$ZK_TEST_SERVER_TOKEN\" \"$@\" >&2; exit 3").getMessage();
        String said = message.substring(message.indexOf("it wrote: ") + "it wrote: ".length());
        assertTrue(said.matches("[0-9a-f]{32} --port 0 --tick-time 100 --min-session-timeout 200 "
                + "--max-session-timeout 60000 --control 0 --until-eof"), said);
    }

    @Test
    void theProgramMustExist() {
        ZkTestServer.Builder builder = ZkTestServer.builder().binary(directory.resolve("absent"));
        ServerStartException error = assertThrows(ServerStartException.class, builder::launch);
        assertTrue(error.getMessage().contains("No such file"), error.getMessage());
    }

    @Test
    void settingsAreChecked() {
        ZkTestServer.Builder builder = ZkTestServer.builder();
        for (Duration duration : List.of(Duration.ofMillis(-1), Duration.ofMillis(0xFFFF_FFFFL + 1))) {
            assertThrows(IllegalArgumentException.class, () -> builder.tick(duration));
            assertThrows(IllegalArgumentException.class, () -> builder.minSessionTimeout(duration));
            assertThrows(IllegalArgumentException.class, () -> builder.maxSessionTimeout(duration));
            assertThrows(IllegalArgumentException.class, () -> builder.startTimeout(duration));
            assertThrows(IllegalArgumentException.class, () -> builder.callTimeout(duration));
        }
        assertThrows(IllegalArgumentException.class, () -> builder.tick(Duration.ZERO));
        assertThrows(IllegalArgumentException.class, () -> builder.ports(65536));
        assertThrows(IllegalArgumentException.class, () -> builder.ports(-1));
        assertThrows(IllegalArgumentException.class, () -> builder.maxClientConnections(-1));
        assertThrows(IllegalArgumentException.class, () -> builder.launchCluster(0));
        ServerStartException error =
                assertThrows(ServerStartException.class, () -> builder.ports(1, 2).launchCluster(3));
        assertEquals("start: 2 ports for 3 members", error.getMessage());
    }

    @Test
    void durationsAreRoundedUp() {
        assertEquals(1, Values.millis("test", Duration.ofNanos(1)));
        assertEquals(0, Values.millis("test", Duration.ZERO));
        assertEquals(0xFFFF_FFFFL, Values.millis("test", Duration.ofMillis(0xFFFF_FFFFL)));
    }
}
