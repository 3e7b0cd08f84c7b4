/** Queries of the API, which refresh while they are shown. */
import { infiniteQueryOptions, keepPreviousData, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { notifications } from "@mantine/notifications";
import { answer, api } from "./client";
import { key } from "./keys";
import type { Refusal } from "./refusal";
import type { SchemaSeverity } from "./schema";
import { pollEvery } from "./stream";

const LIVE = { refetchInterval: pollEvery(2_000, 5_000), placeholderData: keepPreviousData };
const LIST = { refetchInterval: pollEvery(5_000, 30_000), placeholderData: keepPreviousData };

export const array = () =>
  queryOptions({ queryKey: key("array"), queryFn: ({ signal }) => answer(api.GET("/api/v1/array", { signal })), ...LIVE });

/** A value of a filter condition, with pattern characters escaped. */
export const quoted = (text: string) => text.replace(/[\\,*]/g, "\\$&");

/** Entries that a choice fetches at once; the user finds the others by a part of the name. */
export const CHOICES = 100;

/** Names of the first volumes whose names contain a text, for a choice. */
export const volumeNames = (search: string) =>
  queryOptions({
    queryKey: key("volumes", "names", search),
    queryFn: async ({ signal }) => {
      const query = { fields: "name", limit: CHOICES, ...(search && { search }) };
      return (await answer(api.GET("/api/v1/volumes", { params: { query }, signal }))).items.map(({ name }) => name);
    },
    ...LIST,
  });

/** The volumes of a group. */
export const volumesOf = (group: string) =>
  queryOptions({
    queryKey: key("volumes", "of", group),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/volumes", { params: { query: { filter: `group=${quoted(group)}` } }, signal }))).items,
    ...LIST,
  });

/** The requested part of a long list. */
export type Part = { limit: number; offset: number; sort?: string; filter?: string; label?: string; search?: string };

/** One page of the volumes: sorted, filtered and cut by the array. */
export const volumesPage = (query: Part) =>
  queryOptions({
    queryKey: key("volumes", "page", query),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/volumes", { params: { query }, signal })),
    ...LIST,
  });

/** The labels of each volume, and nothing else of them. */
export const volumeLabels = () =>
  queryOptions({
    queryKey: key("volumes", "labels"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/volumes", { params: { query: { fields: "labels" } }, signal }))).items.map(({ labels }) => labels),
  });

export const volume = (name: string) =>
  queryOptions({
    queryKey: key("volumes", name),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/volumes/{name}", { params: { path: { name } }, signal })),
    refetchInterval: pollEvery(5_000, 10_000),
  });

export const usage = (kind: "volume" | "group", name: string) =>
  queryOptions({
    queryKey: key(kind === "volume" ? "volumes" : "groups", name, "space"),
    queryFn: ({ signal }) => {
      const params = { path: { name } };
      return answer(
        kind === "volume"
          ? api.GET("/api/v1/volumes/{name}/space", { params, signal })
          : api.GET("/api/v1/groups/{name}/space", { params, signal }),
      );
    },
  });

export const hosts = () =>
  queryOptions({
    queryKey: key("hosts"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/hosts", { signal }))).items,
    ...LIST,
  });

export const host = (name: string) =>
  queryOptions({
    queryKey: key("hosts", name),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/hosts/{name}", { params: { path: { name } }, signal })),
    refetchInterval: pollEvery(5_000, 10_000),
  });

export const refusedLogins = () =>
  queryOptions({
    queryKey: key("refused-logins"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/refused-logins", { signal }))).items,
    ...LIST,
  });

export const fibreChannelSessions = (host: string) =>
  queryOptions({
    queryKey: key("hosts", host, "fibre-channel-sessions"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/fibre-channel-sessions", { params: { query: { host } }, signal }))).items,
    refetchInterval: pollEvery(5_000, 10_000),
  });

export const groups = () =>
  queryOptions({
    queryKey: key("groups"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/groups", { signal }))).items,
    ...LIST,
  });

export const group = (name: string) =>
  queryOptions({
    queryKey: key("groups", name),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/groups/{name}", { params: { path: { name } }, signal })),
    refetchInterval: pollEvery(5_000, 10_000),
  });

export const hostGroups = () =>
  queryOptions({
    queryKey: key("host-groups"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/host-groups", { signal }))).items,
    ...LIST,
  });

export const hostGroup = (name: string) =>
  queryOptions({
    queryKey: key("host-groups", name),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/host-groups/{name}", { params: { path: { name } }, signal })),
    refetchInterval: pollEvery(5_000, 10_000),
  });

export const snapshots = () =>
  queryOptions({
    queryKey: key("snapshots"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/snapshots", { signal }))).items,
    ...LIST,
  });

/** The snapshots of a volume. */
export const snapshotsOf = (volume: string) =>
  queryOptions({
    queryKey: key("snapshots", "of", volume),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/snapshots", { params: { query: { filter: `source=${quoted(volume)}` } }, signal }))).items,
    ...LIST,
  });

export const snapshot = (name: string) =>
  queryOptions({
    queryKey: key("snapshots", name),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/snapshots/{name}", { params: { path: { name } }, signal })),
    refetchInterval: pollEvery(5_000, 10_000),
  });

export const schedules = () =>
  queryOptions({
    queryKey: key("schedules"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/schedules", { signal }))).items,
    ...LIST,
  });

export const remoteArrays = () =>
  queryOptions({
    queryKey: key("remote-arrays"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/remote-arrays", { signal }))).items,
    ...LIST,
  });

export const replications = () =>
  queryOptions({
    queryKey: key("replications"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/replications", { signal }))).items,
    ...LIST,
  });

export const replicationPoints = (name: string) =>
  queryOptions({
    queryKey: key("replications", name, "points"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/replications/{name}/points", { params: { path: { name } }, signal }))).items,
  });

export const replication = (name: string) =>
  queryOptions({
    queryKey: key("replications", name),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/replications/{name}", { params: { path: { name } }, signal })),
    ...LIVE,
  });

export const recycleBin = () =>
  queryOptions({
    queryKey: key("recycle-bin"),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/recycle-bin", { signal }))).items,
    ...LIST,
  });

export const settings = () =>
  queryOptions({ queryKey: key("settings"), queryFn: ({ signal }) => answer(api.GET("/api/v1/settings", { signal })), ...LIST });

export const users = () =>
  queryOptions({ queryKey: key("users"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/users", { signal }))).items, ...LIST });

export const tokens = () =>
  queryOptions({ queryKey: key("tokens"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/tokens", { signal }))).items, ...LIST });

export const directories = () =>
  queryOptions({ queryKey: key("directories"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/directories", { signal }))).items, ...LIST });

export const certificate = () => queryOptions({ queryKey: key("certificate"), queryFn: ({ signal }) => answer(api.GET("/api/v1/certificate", { signal })) });

export const notificationTargets = () =>
  queryOptions({ queryKey: key("notification-targets"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/notification-targets", { signal }))).items, ...LIST });

export const upgrade = () => queryOptions({ queryKey: key("upgrade"), queryFn: ({ signal }) => answer(api.GET("/api/v1/upgrade", { signal })), ...LIST });

export const driveKey = () => queryOptions({ queryKey: key("key"), queryFn: ({ signal }) => answer(api.GET("/api/v1/key", { signal })), ...LIST });

export const alerts = () =>
  queryOptions({ queryKey: key("alerts"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/alerts", { signal }))).items, ...LIST });

export const controllers = () =>
  queryOptions({ queryKey: key("controllers"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/controllers", { signal }))).items, ...LIST });

export const apiAddress = () => queryOptions({ queryKey: key("api-address"), queryFn: ({ signal }) => answer(api.GET("/api/v1/api-address", { signal })), ...LIST });

export const portals = () =>
  queryOptions({ queryKey: key("portals"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/portals", { signal }))).items, ...LIST });

export const store = () =>
  queryOptions({ queryKey: key("store"), queryFn: ({ signal }) => answer(api.GET("/api/v1/store", { signal })), ...LIST });

export const drives = () =>
  queryOptions({ queryKey: key("drives"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/drives", { signal }))).items, ...LIVE });

/** Drives of the server outside the array. The array examines them one by one, so the page requests them once. */
export const availableDrives = () =>
  queryOptions({ queryKey: key("drives", "available"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/drives/available", { signal }))).items });

export const protection = () =>
  queryOptions({ queryKey: key("protection"), queryFn: ({ signal }) => answer(api.GET("/api/v1/protection", { signal })), ...LIVE });

export const jobs = () =>
  queryOptions({ queryKey: key("jobs"), queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/jobs", { signal }))).items, ...LIST });

/** The newest events; {@link olderThan} reads older ones page by page. */
export const events = (severity: SchemaSeverity) =>
  infiniteQueryOptions({
    queryKey: key("events", severity),
    queryFn: async ({ signal, pageParam }) =>
      (await answer(api.GET("/api/v1/events", { params: { query: { severity, limit: PAGE, ...olderThan(pageParam) } }, signal }))).items,
    initialPageParam: undefined as number | undefined,
    getNextPageParam: lastOf,
    ...LIST,
  });

export const audit = () =>
  infiniteQueryOptions({
    queryKey: key("audit"),
    queryFn: async ({ signal, pageParam }) =>
      (await answer(api.GET("/api/v1/audit", { params: { query: { limit: PAGE, ...olderThan(pageParam) } }, signal }))).items,
    initialPageParam: undefined as number | undefined,
    getNextPageParam: lastOf,
    ...LIST,
  });

/** Events or audit entries of one request. */
const PAGE = 200;

function olderThan(before: number | undefined) {
  return before === undefined ? {} : { before };
}

/** The start of the next page; undefined after the last page. */
function lastOf(items: { id: number }[]): number | undefined {
  return items.length === PAGE ? items.at(-1)?.id : undefined;
}

/** A change of the array: reports its success and refetches all data that it may affect. */
export function useChange<Input, Output>(options: {
  run: (input: Input) => Promise<Output>;
  done: (output: Output, input: Input) => string;
  then?: (output: Output, input: Input) => void;
}) {
  const client = useQueryClient();
  return useMutation<Output, Refusal, Input>({
    mutationFn: options.run,
    onSuccess: async (output, input) => {
      notifications.show({ message: options.done(output, input), color: "teal", role: "status", closeButtonProps: { "aria-label": "Dismiss" } });
      options.then?.(output, input);
      await client.invalidateQueries();
    },
  });
}
