// `make page`: every page of src/ that has a main.js becomes NAME.js and NAME.css in the package, with the licences of
// what they are made from. The files are committed: a user needs no node.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const home = fileURLToPath(new URL(".", import.meta.url));
const out = join(home, "../src/headcount/view/page/static");
const pages = ["report", "play"].filter((name) => existsSync(join(home, "src", name, "main.js")));

/** All sources as one hash, in the order of their names: tests compare it with what was built. */
function digest() {
  const files = readdirSync(join(home, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(home, join(entry.parentPath, entry.name)).replaceAll("\\", "/"));
  const hash = createHash("sha256");
  for (const file of [...files, "package-lock.json"].sort()) {
    hash.update(`${file}\n`);
    hash.update(readFileSync(join(home, file)));
  }
  return hash.digest("hex").slice(0, 24);
}

function licences(inputs) {
  const packages = new Set(inputs.map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean));
  const parts = [...packages].sort().map((name) => {
    const folder = join(home, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json")));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  return `Third-party code in the pages of headcount.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

mkdirSync(out, { recursive: true });
const result = await build({
  entryPoints: Object.fromEntries(pages.map((name) => [name, join(home, "src", name, "main.js")])),
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});
writeFileSync(join(out, "licences.txt"), licences(Object.keys(result.metafile.inputs)));
writeFileSync(join(out, "source.txt"), `${digest()}\n`);
for (const [path, { bytes }] of Object.entries(result.metafile.outputs)) console.log(relative(out, path), bytes);
