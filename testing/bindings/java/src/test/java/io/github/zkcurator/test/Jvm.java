package io.github.zkcurator.test;

import java.nio.file.Paths;

/** Another virtual machine with the class path of this one. */
final class Jvm {
    private Jvm() {}

    static ProcessBuilder of(Class<?> program) {
        String java = Paths.get(System.getProperty("java.home"), "bin", "java").toString();
        return new ProcessBuilder(java, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp",
                        System.getProperty("java.class.path"), program.getName())
                .redirectError(ProcessBuilder.Redirect.INHERIT);
    }
}
