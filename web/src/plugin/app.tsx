/** A page of the plug-in: it reads its object and the user's privileges, then shows the view at the address. */
import { Alert, Button, Group, Select, Skeleton, Stack } from "@mantine/core";
import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { Clock } from "lucide-react";
import { useEffect, useState, type ComponentType, type MouseEvent, type ReactNode } from "react";
import { Router } from "wouter";
import { session, useSession } from "../api/session";
import { ProblemAlert } from "../parts/problem";
import { CreateDatastore, GrowDatastore, ProtectDatastore, SnapshotDatastore } from "./actions";
import { DatastoreView } from "./datastore";
import { OverviewView } from "./overview";
import { PlaceProvider } from "./place";
import { PracticeView } from "./practice";
import type { Sdk } from "./sdk";
import type { Context, Server } from "./server";

const VIEWS: Record<string, ComponentType> = {
  overview: OverviewView,
  volume: DatastoreView,
  practice: PracticeView,
  create: CreateDatastore,
  grow: GrowDatastore,
  snapshot: SnapshotDatastore,
  protect: ProtectDatastore,
};

type Props = { sdk: Sdk; server: Server; view: string };

export function PluginApp({ sdk, server, view }: Props) {
  const { at } = useSession();
  const { data, error, refetch, isFetching } = useQuery({ queryKey: ["plugin", "context"], queryFn: ({ signal }) => server.ask<Context>("context", undefined, signal) });
  useEffect(() => sdk.event.onGlobalRefresh?.(() => void refetch()), [sdk, refetch]);
  useEffect(() => {
    if (data) session.within(data.user, data.may.manage ? "operator" : "viewer");
  }, [data]);
  if (at === "out") return <Expired />;
  if (error)
    return (
      <Stack gap="md" align="flex-start">
        <ProblemAlert error={error} />
        <Button variant="default" loading={isFetching} onClick={() => void refetch()}>
          Try again
        </Button>
      </Stack>
    );
  if (!data || at !== "in") return <Skeleton height={180} />;
  return <OfArray sdk={sdk} server={server} view={view} about={data} refresh={() => void refetch()} />;
}

function Expired() {
  return (
    <Alert color="orange" variant="light" title="The session has expired" icon={<Clock size={18} />} role="alert">
      vCenter does not accept the session of the vSphere Client any more. Reload the page of the browser, and log in again if it asks.
    </Alert>
  );
}

/** The view of one array: the datastore's array, or an array that the user chooses. */
function OfArray({ sdk, server, view, about, refresh }: Props & { about: Context; refresh: () => void }) {
  const [chosen, setChosen] = useState(() => {
    const first = about.array ?? about.arrays[0]?.name ?? "";
    server.showArray(first);
    return first;
  });
  const choose = (name: string) => {
    server.showArray(name);
    setChosen(name);
  };
  const array = about.arrays.find((it) => it.name === chosen);
  const View = VIEWS[view];
  if (!View) return <ProblemAlert error={new Error(`The plug-in has no view “${view}”.`)} />;
  if (!array) return <ProblemAlert error={new Error("The plug-in has no array: “ashlar-vsphere arrays add” adds one on its server.")} />;
  return (
    <>
      {about.array === undefined && about.arrays.length > 1 && (
        <Group mb="md">
          <Select label="Array" data={about.arrays.map((it) => it.name)} value={chosen} onChange={(name) => name && choose(name)} allowDeselect={false} />
        </Group>
      )}
      <ThroughServer key={array.name} url={array.url}>
        <PlaceProvider value={{ sdk, server, about, array: array.name, refresh }}>
          <View />
        </PlaceProvider>
      </ThroughServer>
    </>
  );
}

const nowhere = (): [string, () => void] => ["/", () => undefined];

/** Parts of the array's own interface. Their requests go through the server, and their links open that interface. */
function ThroughServer({ url, children }: { url: string; children: ReactNode }) {
  const [queries] = useState(() => new QueryClient({ defaultOptions: { queries: { retry: false, networkMode: "always" }, mutations: { retry: false, networkMode: "always" } } }));
  const open = (event: MouseEvent) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link?.href.startsWith(url)) return;
    event.preventDefault();
    window.open(link.href, "_blank", "noopener");
  };
  return (
    <QueryClientProvider client={queries}>
      <Router hook={nowhere} hrefs={(path) => `${url}${path}`}>
        <div onClickCapture={open}>{children}</div>
      </Router>
    </QueryClientProvider>
  );
}
