import { defineConfig, devices } from "@playwright/test";

/** The browser of the distribution; the tests are left out where there is none (`cargo xtask web --check` says so). */
const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

export default defineConfig({
  testDir: "e2e",
  // They need more than an array.
  testIgnore: "plugin/**",
  outputDir: "test-results",
  workers: 1,
  forbidOnly: true,
  reporter: [["line"]],
  timeout: 120_000,
  expect: { timeout: 30_000 },
  use: {
    ...devices["Desktop Chrome"],
    viewport: { width: 1360, height: 860 },
    // Root, as on build machines, can't use the browser's sandbox.
    launchOptions: { executablePath, args: ["--no-sandbox", "--disable-gpu"] },
    screenshot: "only-on-failure",
    // The one test of it lets it in: requests through it can't be changed by tests.
    serviceWorkers: "block",
    contextOptions: { reducedMotion: "reduce" },
  },
});
