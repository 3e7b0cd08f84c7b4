import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "../index.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { setNonce } from "get-nonce";
import { StrictMode, useState, useSyncExternalStore } from "react";
import { createRoot } from "react-dom/client";
import { ProblemAlert } from "../parts/problem";
import { theme } from "../theme";
import { PluginApp } from "./app";
import { client, subjectOf, type Sdk } from "./sdk";
import { Server } from "./server";

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
setNonce(nonce);

/** The present colour scheme of the vSphere Client. */
function useScheme(sdk: Sdk | undefined): "light" | "dark" {
  return useSyncExternalStore(
    (changed) => {
      sdk?.event.onThemeChanged?.(changed);
      return () => undefined;
    },
    () => (sdk?.app.getTheme?.().name.toLowerCase().includes("dark") ? "dark" : "light"),
  );
}

function Root({ sdk, server, error }: { sdk?: Sdk; server?: Server; error?: unknown }) {
  const [queries] = useState(() => new QueryClient({ defaultOptions: { queries: { retry: false, networkMode: "always" }, mutations: { retry: false, networkMode: "always" } } }));
  const view = new URLSearchParams(location.search).get("view") ?? "overview";
  return (
    <MantineProvider theme={theme} forceColorScheme={useScheme(sdk)} getStyleNonce={() => nonce}>
      <Notifications position="bottom-right" />
      <QueryClientProvider client={queries}>
        <main style={{ padding: 16 }}>{sdk && server ? <PluginApp sdk={sdk} server={server} view={view} /> : <ProblemAlert error={error} />}</main>
      </QueryClientProvider>
    </MantineProvider>
  );
}

async function begin() {
  const root = document.getElementById("root");
  if (!root) throw new Error("the document has no place for the page");
  const page = createRoot(root);
  let sdk: Sdk | undefined;
  try {
    sdk = await client();
    const server = await Server.connect(sdk, subjectOf(sdk.app.getContextObjects()[0]?.id));
    page.render(
      <StrictMode>
        <Root sdk={sdk} server={server} />
      </StrictMode>,
    );
  } catch (error) {
    page.render(<Root sdk={sdk} error={error} />);
  }
}

void begin();
