/** The paths of the API over an array in memory. What they take and answer is typed by the API's description. */
import type { paths } from "../src/api/schema";
import * as model from "./array";

type Method = "get" | "post" | "patch" | "put" | "delete";
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : undefined;
type Success<T> = T extends { responses: infer Answers } ? { [S in keyof Answers]: S extends 200 | 201 | 202 | 204 ? Json<Answers[S]> : never }[keyof Answers] : never;
type Taken<T> = T extends { requestBody: infer Body } ? Json<Body> : T extends { requestBody?: infer Body } ? Json<NonNullable<Body>> : undefined;
type Input<Body> = { path: Record<string, string>; query: URLSearchParams; body: Body };

/** Everything that is handled; what is not is answered with 501. */
export type Handlers = {
  [P in keyof paths]?: {
    [M in Method & keyof paths[P]]?: (state: model.State, input: Input<Taken<NonNullable<paths[P][M]>>>) => Success<NonNullable<paths[P][M]>>;
  };
};

export const handlers: Handlers = {
  "/api/v1/session": {
    get: () => ({ user: "admin", role: "admin" }),
    delete: () => undefined,
  },
  "/api/v1/sign-in": {
    get: () => ({ items: [{ directory: "corp" }], total: 1 }),
    post: () => ({ user: "corp/ada", role: "admin" }),
  },
  "/api/v1/directories": { get: () => list([]) },
  "/api/v1/array": { get: model.status },
  "/api/v1/fibre-channel-sessions": { get: () => ({ items: [] }) },
  "/api/v1/refused-logins": { get: (state) => ({ items: state.refused }) },
  "/api/v1/volumes": {
    get: (state, { query }) => part(sorted(state.volumes).map((it) => model.withConnections(state, it, "volume")), query),
    post: (state, { body }) => {
      if (body.source) {
        const source = model.find(state.volumes, body.source, "volume");
        const clone = model.create(state, body.name, source.size, source.block_size);
        clone.mapped = source.mapped;
        return clone;
      }
      return model.create(state, body.name, body.size ?? 0, body.block_size ?? 512);
    },
  },
  "/api/v1/volumes/{name}": {
    get: (state, { path }) => model.withConnections(state, model.find(state.volumes, path["name"] ?? "", "volume"), "volume"),
    patch: (state, { path, body }) => {
      const volume = model.find(state.volumes, path["name"] ?? "", "volume");
      const size = body.size ?? volume.size;
      if (size < volume.size && !body.shrink) {
        throw model.precondition(`volume "${volume.name}" would shrink: data after the new end would be destroyed; force it if that is wanted`);
      }
      volume.size = size;
      return model.withConnections(state, volume, "volume");
    },
    delete: (state, { path }) => {
      const volume = model.find(state.volumes, path["name"] ?? "", "volume");
      if (state.connections.some((it) => it.volume === volume.name)) {
        throw model.precondition(`hosts see volume "${volume.name}": disconnect them first`);
      }
      state.volumes = state.volumes.filter((it) => it !== volume);
      return undefined;
    },
  },
  "/api/v1/volumes/{name}/space": {
    get: (state, { path }) => {
      const { size, mapped } = model.find(state.volumes, path["name"] ?? "", "volume");
      const unique = Math.floor(mapped / 2);
      return { provisioned: size, mapped, zero: 0, snapshots: 0, snapshot: 0, unique, shared: mapped - unique, physical: Math.floor(unique / 2), metadata: 0 };
    },
  },
  "/api/v1/hosts": {
    get: (state, { query }) => part(sorted(state.hosts).map((it) => model.withConnections(state, it, "host")), query),
    post: (state, { body }) => {
      model.freeName(body.name, state.hosts);
      const initiators = (body.initiators ?? []).map((it) => it.toLowerCase());
      for (const initiator of initiators) {
        if (!/^(iqn\.\d{4}-\d{2}\.|eui\.|naa\.)/.test(initiator)) throw model.invalid(`"${initiator}" is not an iSCSI name: it begins with iqn.YYYY-MM., eui. or naa.`);
        const other = state.hosts.find((it) => it.initiators.includes(initiator));
        if (other) throw model.conflict(`initiator ${initiator} belongs to host "${other.name}"`);
      }
      const host = { name: body.name, id: model.hexDigits(Math.random, 16), labels: body.labels ?? {}, initiators, nqns: body.nqns ?? [], wwpns: body.wwpns ?? [], chap_user: body.chap?.user ?? null, mutual_user: body.mutual?.user ?? null, dhchap: Boolean(body.dhchap_secret), dhchap_controller: Boolean(body.dhchap_controller_secret), tls: Boolean(body.tls_psk), created: new Date().toISOString(), connections: [], sessions: 0, controllers: 0, fibre_channel_sessions: 0, refused_logins: [] };
      state.hosts.push(host);
      return host;
    },
  },
  "/api/v1/hosts/{name}": {
    get: (state, { path }) => model.withConnections(state, model.find(state.hosts, path["name"] ?? "", "host"), "host"),
    delete: (state, { path }) => {
      const host = model.find(state.hosts, path["name"] ?? "", "host");
      if (state.connections.some((it) => it.host === host.name)) throw model.precondition(`host "${host.name}" sees volumes: disconnect them first`);
      state.hosts = state.hosts.filter((it) => it !== host);
      return undefined;
    },
  },
  "/api/v1/connections": {
    get: (state) => list(state.connections),
    post: (state, { body }) => model.connect(state, body.volume, body.host ?? "", body.lun ?? null),
  },
  "/api/v1/connections/{volume}/{host}": {
    delete: (state, { path }) => {
      state.connections = state.connections.filter((it) => it.volume !== path["volume"] || it.host !== path["host"]);
      return undefined;
    },
  },
  "/api/v1/alerts": { get: (state) => list(state.alerts) },
  "/api/v1/array/confirm-time": {
    post: (state) => {
      state.alerts = state.alerts.filter((it) => it.kind !== "clock.jumped");
      return undefined;
    },
  },
  "/api/v1/volumes/{name}/clear-state": {
    post: (state, { path }) => {
      state.alerts = state.alerts.filter((it) => it.kind !== "volume.state-unreadable" || it.name !== path["name"]);
      return undefined;
    },
  },
  "/api/v1/performance": { get: () => ({ resolution_seconds: 1, times: [], read: model.noWork(), write: model.noWork(), offload: model.noWork() }) },
  "/api/v1/capacity": { get: () => ({ times: [], space: { provisioned: [], mapped: [], unique: [], physical: [], metadata: [], total: [] }, forecast: {} }) },
  "/api/v1/protection": { get: () => ({ tolerates: 2, promises: 2, parity_bytes: 8 * 1024 ** 4, segments: 400, segments_at_risk: 0, rebuilt: 0, repaired: 0, lost: 0, former_members: [], scrub: null, next_scrub: null }) },
  "/api/v1/controllers": { get: (state) => list(state.controllers) },
  "/api/v1/controllers/{number}": {
    delete: (state, { path }) => {
      state.controllers = state.controllers.filter((it) => `${it.number}` !== path["number"]);
      return undefined;
    },
  },
  "/api/v1/api-address": {
    get: (state) => state.apiAddress,
    put: (state, { body }) => {
      state.apiAddress = body.address ? { ...state.apiAddress, trial: body.address, trial_until: "2026-10-01T08:10:00Z" } : { ...state.apiAddress, address: null, trial: null, trial_until: null };
      return state.apiAddress;
    },
  },
  "/api/v1/api-address/confirm": {
    post: (state) => {
      state.apiAddress = { ...state.apiAddress, address: state.apiAddress.trial, listens: true, trial: null, trial_until: null };
      return state.apiAddress;
    },
  },
  "/api/v1/portals": {
    get: (state) => list(state.portals),
    post: (state, { body }) => {
      const added = { ...model.portal(state.portals.length + 1, body.address.includes(":") ? body.address : `${body.address}:3260`, false), protocol: body.protocol ?? "iscsi", tls: body.tls ?? false, moves: body.moves ?? false };
      state.portals.push(added);
      return added;
    },
  },
  "/api/v1/portals/{number}": {
    delete: (state, { path }) => {
      state.portals = state.portals.filter((it) => `${it.number}` !== path["number"]);
    },
  },
  "/api/v1/controllers/{number}/drain": { post: (state, { path }) => model.setDrained(state, path["number"], true) },
  "/api/v1/controllers/{number}/resume": { post: (state, { path }) => model.setDrained(state, path["number"], false) },
  "/api/v1/store": { get: (state) => state.store },
  "/api/v1/drives": { get: (state) => list(state.drives) },
  "/api/v1/drives/available": {
    get: () => ({
      items: [
        { path: "/dev/disk/by-id/nvme-FAST_3840_S7", size: 3_840_755_982_336, model: "FAST 3840", serial: "S7", users: [], contents: [], problem: null },
        { path: "/dev/disk/by-id/nvme-FAST_3840_S8", size: 3_840_755_982_336, model: "FAST 3840", serial: "S8", users: [], contents: ["a partition table (gpt) at byte 512", "ext4 \"backup\" at byte 1049656"], problem: null },
        { path: "/dev/disk/by-id/ata-BOOT_240_B1", size: 240_057_409_536, model: "BOOT 240", serial: "B1", users: ["sda2 is mounted at /"], contents: ["a partition table (gpt) at byte 512"], problem: null },
      ],
    }),
  },
  "/api/v1/notification-targets": { get: () => list([]) },
  "/api/v1/users/{name}": {
    patch: (state, { path, body }) => {
      if (body.password) state.password = body.password;
      return { name: path["name"] ?? "", role: "admin", created: "2026-10-01T08:00:00Z", password_set: "2026-10-01T08:00:00Z" };
    },
  },
  "/api/v1/jobs": { get: (state) => list(state.jobs) },
  "/api/v1/performance/paths": { get: () => ({ items: [], hosts: [] }) },
  "/api/v1/performance/offload/history": { get: () => ({ resolution_seconds: 1, times: [], items: [] }) },
  "/api/v1/settings": { get: (state) => ({ name: state.name, recycle_bin_seconds: 86_400, unmap_throttle: 0, scrub_every_seconds: 604_800, max_retention_lock_seconds: 366 * 86_400, time_zone: "UTC", threads: null, threads_now: 4, threads_by_option: false }) },
  "/api/v1/key/rotate": { post: () => ({ source: "file", generation: 4, kmip_id: null }) },
  "/api/v1/upgrade": { get: (state) => state.upgrade },
  "/api/v1/upgrade/commit": {
    post: (state) => {
      state.upgrade = model.committed(state.upgrade);
      return state.upgrade;
    },
  },
  "/api/v1/key": { get: () => ({ source: "file", generation: 3, kmip_id: null }) },
  "/api/v1/groups": { get: (state, { query }) => part(groupsOf(state), query) },
  "/api/v1/host-groups": { get: () => list([]) },
  "/api/v1/snapshots": { get: () => list([]) },
  "/api/v1/schedules": { get: () => list([]) },
  "/api/v1/remote-arrays": { get: (state) => list(state.remotes) },
  "/api/v1/replications": { get: (state, { query }) => part(state.replications, query) },
  "/api/v1/replications/{name}": { get: (state, { path }) => model.find(state.replications, path["name"] ?? "", "replication") },
  "/api/v1/replications/{name}/history": { get: () => ({ times: [], values: { lag_seconds: [], network_bytes_per_second: [], logical_bytes_per_second: [], backlog_bytes: [] } }) },
  "/api/v1/replications/{name}/points": { get: () => list([]) },
  "/api/v1/replications/{name}/demote": {
    post: (state, { path, body }) => {
      const found = model.find(state.replications, path["name"] ?? "", "replication");
      if (found.progress.state === "split" && !body.force) throw model.precondition(`replication "${found.name}" is split: demote it with force on the array that loses its changes`);
      found.progress.state = "demoted";
      return found;
    },
  },
  "/api/v1/recycle-bin": { get: () => list([]) },
  "/api/v1/events": { get: () => ({ items: [] }) },
  "/api/v1/audit": { get: () => ({ items: [] }) },
};

/** The groups that volumes are in. */
function groupsOf({ volumes }: model.State) {
  const names = [...new Set(volumes.flatMap(({ group }) => group ?? []))].sort();
  return names.map((name, index) => {
    const members = volumes.filter(({ group }) => group === name);
    const sum = (of: (volume: (typeof members)[number]) => number) => members.reduce((all, it) => all + of(it), 0);
    const id = `${index + 1}`.padStart(16, "0");
    return { name, id, created: "2026-10-01T08:00:00Z", volumes: members.map((it) => it.name), provisioned: sum((it) => it.size), mapped: sum((it) => it.mapped), soft_quota_crossed: false, hard_quota_reached: false, policy: {}, limits: {}, labels: {} };
  });
}

const list = <T>(items: T[]) => ({ items, total: items.length });

/** The values at a path of fields: several in a list. */
const at = (value: unknown, path: string): unknown[] =>
  path.split(".").reduce<unknown[]>((found, name) => found.flat().map((it) => (it as Record<string, unknown> | null)?.[name]), [value]).flat();

/** The part of a list that is asked for. Of conditions it knows `=` without patterns. */
function part<T>(items: T[], query: URLSearchParams) {
  const words = (query.get("search") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const conditions = (query.get("filter") ?? "").split(",").filter(Boolean).map((it) => it.split("=", 2) as [string, string]);
  const keys = (query.get("sort") ?? "").split(",").filter(Boolean);
  const order = (a: T, b: T, key: string) => {
    const [sign, field] = key.startsWith("-") ? [-1, key.slice(1)] : [1, key];
    const [x, y] = [at(a, field)[0] ?? "", at(b, field)[0] ?? ""] as [string, string];
    return sign * (x < y ? -1 : x > y ? 1 : 0);
  };
  const found = items
    .filter((it) => words.every((word) => JSON.stringify(it).toLowerCase().includes(word)))
    .filter((it) => conditions.every(([field, value]) => at(it, field).some((found) => String(found) === value)))
    .sort((a, b) => keys.reduce((known, key) => known || order(a, b, key), 0));
  const [offset, limit] = [Number(query.get("offset") ?? 0), Number(query.get("limit") ?? found.length)];
  return { items: found.slice(offset, offset + limit), total: found.length };
}

function sorted<T extends { name: string }>(list: T[]): T[] {
  return [...list].sort((a, b) => (a.name < b.name ? -1 : 1));
}
