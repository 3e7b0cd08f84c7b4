/** The pages of the plug-in for the vSphere Client. A test of `integrations/go` has the client, a vCenter and arrays, and runs these. */
import { defineConfig } from "@playwright/test";
import base from "./playwright.config";

export default defineConfig(base, { testDir: "e2e/plugin", testIgnore: [] });
