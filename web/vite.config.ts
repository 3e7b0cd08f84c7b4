import react from "@vitejs/plugin-react";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { mockArray } from "./mock/server";

/** Where `npm run dev` sends /api: a running array, or none for the array in memory. */
const array = process.env["ASHLAR_ARRAY"];

/** Empties the folder of the build but for its .gitignore, and puts a compressed file beside each text. */
function distFolder(): Plugin {
  let folder = "dist";
  return {
    name: "dist-folder",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    buildStart() {
      for (const name of readdirSync(folder)) {
        if (name !== ".gitignore") rmSync(join(folder, name), { recursive: true });
      }
    },
    writeBundle(_, bundle) {
      for (const name of Object.keys(bundle)) {
        if (!/\.(js|css|svg)$/.test(name)) continue;
        writeFileSync(join(folder, `${name}.gz`), gzipSync(readFileSync(join(folder, name)), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), distFolder(), ...(array ? [] : [mockArray()])],
  server: array ? { proxy: { "/api": { target: array, secure: false } } } : {},
  build: { outDir: "dist", emptyOutDir: false, target: "es2022", chunkSizeWarningLimit: 900, assetsInlineLimit: 0 },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}", "mock/**/*.test.ts"], setupFiles: ["src/test-setup.ts"], testTimeout: 60_000 },
});
