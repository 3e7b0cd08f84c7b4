import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "./index.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Refusal } from "./api/refusal";
import { session } from "./api/session";
import { App } from "./app";
import { theme } from "./theme";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // A repeat does not change a refusal; the next refresh repeats a request whose connection broke.
      retry: false,
      throwOnError: false,
      refetchOnWindowFocus: (query) => Refusal.of(query.state.error ?? null).status !== 404,
      networkMode: "always",
    },
    mutations: { networkMode: "always", retry: false },
  },
});

const root = document.getElementById("root");
if (!root) throw new Error("the document has no place for the page");
// The array's content security policy admits only style sheets with the nonce of this response. Dialogs add one, too, to stop the scrolling.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
setNonce(nonce);
void session.ask();
// A reload then shows the interface even while the array does not respond. Browsers refuse it on addresses whose certificate they don't trust.
if (import.meta.env.PROD && "serviceWorker" in navigator) navigator.serviceWorker.register("/sw.js").catch(() => undefined);
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <Notifications position="bottom-right" />
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
