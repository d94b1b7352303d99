// Packs the npm packages: node pack.mjs FOLDER PLATFORM=PROGRAM…
//
// PLATFORM is Node's name of an operating system and a processor, such as linux-x64, and PROGRAM
// the file of `zk-test-server` for it. Each platform is a package of its own, of which npm installs
// the one that fits. The version is that of the workspace. Run `npm ci` and `npm run build` before.
import { execFileSync } from "node:child_process";
import {
    chmodSync,
    copyFileSync,
    cpSync,
    mkdirSync,
    readFileSync,
    rmSync,
    writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "../../..");
const [folder, ...platforms] = process.argv.slice(2);
if (
    folder === undefined ||
    platforms.length === 0 ||
    !platforms.every((platform) => /^[a-z0-9]+-[a-z0-9]+=./.test(platform))
) {
    console.error("usage: node pack.mjs FOLDER PLATFORM=PROGRAM…");
    process.exit(2);
}
const version = /^version = "(.+)"$/m.exec(readFileSync(join(root, "Cargo.toml"), "utf8"))[1];

/**
 * Packs a package: its manifest, its README, the licences, and what `fill` puts into its folder.
 */
function pack(manifest, readme, fill) {
    const stage = join(folder, "stage");
    rmSync(stage, { recursive: true, force: true });
    mkdirSync(stage, { recursive: true });
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, undefined, 4)}\n`);
    writeFileSync(join(stage, "README.md"), readme);
    for (const licence of ["LICENSE-APACHE", "LICENSE-MIT"]) {
        copyFileSync(join(root, licence), join(stage, licence));
    }
    fill(stage);
    execFileSync("npm", ["pack", "--silent", "--pack-destination", ".."], {
        cwd: stage,
        stdio: "inherit",
    });
    rmSync(stage, { recursive: true });
}

const { scripts, devDependencies, ...manifest } = JSON.parse(
    readFileSync(join(here, "package.json"), "utf8"),
);
const packages = platforms.map((platform) => {
    const [name, program] = [
        platform.slice(0, platform.indexOf("=")),
        platform.slice(platform.indexOf("=") + 1),
    ];
    const [os, cpu] = name.split("-");
    return { name: `@zk-curator/test-server-${name}`, os, cpu, program };
});
for (const { name, os, cpu, program } of packages) {
    const { license, repository } = manifest;
    const libc = os === "linux" ? { libc: ["glibc"] } : {};
    const description = `The program of the package zk-test-server for ${os} on ${cpu}`;
    const fields = {
        name,
        version,
        description,
        license,
        repository,
        os: [os],
        cpu: [cpu],
        ...libc,
    };
    pack(
        fields,
        `# ${name}\n\n${description}. Install \`zk-test-server\`, which needs this package.\n`,
        (stage) => {
            const file = join(
                stage,
                "bin",
                os === "win32" ? "zk-test-server.exe" : "zk-test-server",
            );
            mkdirSync(join(stage, "bin"));
            copyFileSync(program, file);
            chmodSync(file, 0o755);
        },
    );
}
const optionalDependencies = Object.fromEntries(packages.map(({ name }) => [name, version]));
const readme = readFileSync(join(here, "README.md"), "utf8");
pack({ ...manifest, version, optionalDependencies }, readme, (stage) => {
    cpSync(join(here, "dist"), join(stage, "dist"), { recursive: true });
});
