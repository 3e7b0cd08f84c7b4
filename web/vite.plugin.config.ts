/** The pages of the plug-in for the vSphere Client, which `ashlar-vsphere` embeds. */
import react from "@vitejs/plugin-react";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const OUT = "../integrations/go/vsphere/plugin/pages";

/** Empties the folder of the build but for its .gitignore. */
function emptied(): Plugin {
  return {
    name: "emptied",
    buildStart() {
      for (const name of readdirSync(OUT)) {
        if (name !== ".gitignore") rmSync(join(OUT, name), { recursive: true });
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), emptied()],
  // Relative: the way through vCenter's proxy is known in the browser only.
  base: "./",
  publicDir: "plugin",
  build: { outDir: OUT, emptyOutDir: false, target: "es2022", chunkSizeWarningLimit: 900, assetsInlineLimit: 0, rollupOptions: { input: "plugin.html" } },
});
