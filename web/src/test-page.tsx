/** The whole interface at an address, over an array in memory. */
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { Router } from "wouter";
import { memoryLocation } from "wouter/memory-location";
import type { State } from "../mock/array";
import { Mock } from "../mock/server";
import { session } from "./api/session";
import { App } from "./app";
import { theme } from "./theme";

export function show(path: string, state: State, signedIn = true) {
  const mock = new Mock(state);
  globalThis.fetch = (input, init) => mock.fetch(input instanceof Request ? input : new Request(new URL(input, location.origin), init));
  if (signedIn) sessionStorage.setItem("ashlar-token", "token");
  else sessionStorage.removeItem("ashlar-token");
  void session.ask();
  const [pathname = "/", search = ""] = path.split("?");
  const memory = memoryLocation({ path: pathname, searchPath: search, record: true });
  render(
    <MantineProvider theme={theme} env="test">
      <Notifications />
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false }, mutations: { retry: false } } })}>
        <Router hook={memory.hook} searchHook={memory.searchHook}>
          <App />
        </Router>
      </QueryClientProvider>
    </MantineProvider>,
  );
  return { mock, memory, user: userEvent.setup() };
}
