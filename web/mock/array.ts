/** An array in memory, for tests and for work on pages: the shapes of the API, and the rules that pages show. */
import type { SchemaAlert, SchemaApiAddress, SchemaArray, SchemaAttachment, SchemaConnection, SchemaController, SchemaDrive, SchemaHost, SchemaJob, SchemaRefusedLogin, SchemaRemoteArray, SchemaReplication, SchemaReplicationState, SchemaStore, SchemaTargetPortal, SchemaUpgrade, SchemaVolume, SchemaWorkColumns } from "../src/api/schema";

export type State = {
  name: string;
  volumes: SchemaVolume[];
  hosts: SchemaHost[];
  connections: SchemaConnection[];
  /** Of hosts and of unknown initiators. */
  refused: SchemaRefusedLogin[];
  alerts: SchemaAlert[];
  jobs: SchemaJob[];
  drives: SchemaDrive[];
  controllers: SchemaController[];
  portals: SchemaTargetPortal[];
  apiAddress: SchemaApiAddress;
  store: SchemaStore;
  remotes: SchemaRemoteArray[];
  replications: SchemaReplication[];
  upgrade: SchemaUpgrade;
  /** It is a standby: the problem that it answers everything with. */
  standby?: { detail: string; home: string | undefined };
  /** The one that was set last. */
  password: string | undefined;
};

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    readonly title: string,
    detail: string,
  ) {
    super(detail);
  }
}

const GIB = 1024 ** 3;
const TOTAL = 24 * 1024 * GIB;
/** A day of the demonstration, so that pictures are the same every time. */
const START = Date.UTC(2026, 9, 1, 8, 0);

export const notFound = (detail: string) => new Problem(404, "not_found", "Not found", detail);
export const conflict = (detail: string) => new Problem(409, "conflict", "Conflict", detail);
export const precondition = (detail: string) => new Problem(409, "precondition", "Not possible at present", detail);
export const invalid = (detail: string) => new Problem(400, "invalid", "Invalid request", detail);

/** The same numbers for the same seed. */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

/** An array of the release before. */
const uncommitted = (): SchemaUpgrade => ({
  software: "0.1.0",
  committed: false,
  formats: [
    { part: "engine", active: 6, oldest: 6, newest: 7 },
    { part: "store", active: 5, oldest: 4, newest: 5 },
    { part: "unit_state", active: null, oldest: 1, newest: 2 },
  ],
  enables: ["commands of hosts are noted with their effect, so that a takeover by another controller repeats none"],
  blocked: null,
});

/** It after the commit. */
export const committed = (before: SchemaUpgrade): SchemaUpgrade => ({
  ...before,
  committed: true,
  formats: before.formats.map((it) => (it.active === null ? it : { ...it, active: it.newest })),
  enables: [],
});

export const empty = (): State => ({ name: "ashlar", volumes: [], hosts: [], connections: [], refused: [], alerts: [], jobs: [], drives: [], controllers: [controller(1, "home")], portals: [portal(1, "10.0.0.1:3260", true)], apiAddress: { by_option: "127.0.0.1:8443", address: null, listens: false, moving: null, moving_listens: false, trial: null, trial_until: null }, store: onDrives, remotes: [], replications: [], upgrade: uncommitted(), password: undefined });

/** An array as a small company has it. */
export function busy(volumes = 24, hosts = 9): State {
  const next = random(volumes);
  const state: State = { ...empty(), name: "rack4-array" };
  for (let slot = 0; slot < 6; slot += 1) state.drives.push(drive(slot));
  const kinds = ["sql", "esx-ds", "mail", "build", "vdi", "backup"];
  for (let number = 0; number < hosts; number += 1) {
    const name = `${number % 3 === 2 ? "db" : "esx"}${Math.floor(number / 3) * 3 + (number % 3) + 1}`;
    state.hosts.push({
      name,
      id: hexDigits(next, 16),
      labels: {},
      initiators: [`iqn.1998-01.com.vmware:${name}-${(0x1f3a + number * 77).toString(16)}`],
      nqns: [],
      wwpns: [],
      chap_user: number % 4 === 0 ? name : null,
      mutual_user: null,
      dhchap: false,
      dhchap_controller: false,
      tls: false,
      created: new Date(START + number * 3_600_000).toISOString(),
      connections: [],
      sessions: number % 5 === 4 ? 0 : 2,
      controllers: 0,
      fibre_channel_sessions: 0,
      refused_logins: [],
    });
  }
  for (const it of state.portals) it.hosts = state.hosts.filter((host) => host.sessions > 0).map((host) => host.name);
  for (let number = 0; number < volumes; number += 1) {
    const size = 2 ** Math.floor(next() * 6) * 128 * GIB;
    const volume = newVolume(state, `${kinds[number % kinds.length]}-${String(Math.floor(number / kinds.length) + 1).padStart(2, "0")}`, size, 512);
    volume.mapped = Math.floor((size * (0.1 + next() * 0.7)) / 4096) * 4096;
    volume.created = new Date(START + number * 7_900_000).toISOString();
    const host = state.hosts[number % Math.max(1, hosts)];
    const iops = number % 5 === 3 ? 0 : Math.floor(next() * 4000);
    volume.performance = { iops, bytes_per_second: iops * 8192, latency_us: iops > 0 ? 150 + Math.floor(next() * 600) : null };
    volume.snapshots = number % 4;
    if (number % 3 === 0) volume.group = kinds[number % kinds.length] ?? null;
    if (host && number % 7 !== 6) connect(state, volume.name, host.name, null);
  }
  return state;
}

function drive(slot: number): SchemaDrive {
  const health = { verdict: "passed" as const, model: "FAST 3840", serial: `S${slot}`, firmware: "1.0", temperature_celsius: 34, used_percent: 3, spare_percent: 100, power_on_hours: 4000, media_errors: 0, lifetime_written_bytes: null, lifetime_read_bytes: null };
  const counts = { read_bytes: 0, written_bytes: 0, read_errors: 0, slow_reads: 0, bad_pages: 0 };
  return { slot, path: `/dev/disk/by-id/nvme-FAST_3840_S${slot}`, id: `${slot}`.repeat(32), size: 5.5 * 1024 * GIB, used: 900 * GIB, state: "online", journal: slot < 3, ...counts, slow: false, evacuation_warning: null, health };
}

/** The store of an array that is not shared. */
const onDrives: SchemaStore = { kind: "drives", array: "5".repeat(32), owner: 1, tolerates: 2, segments: 400, total_segments: 2000, segment_size: 16 * 1024 ** 2, journal_size: 256 * 1024 ** 2, drives: 6, ceph: null };

/** A portal that listens. */
export function portal(number: number, address: string, by_option: boolean): SchemaTargetPortal {
  return { number, controller: 1, protocol: "iscsi", address, by_option, tls: false, moves: false, served_by: 1, state: "listening", reason: null, hosts: [], created: "2026-10-01T08:00:00Z" };
}

/** A controller of this number. */
export function controller(number: number, state: SchemaController["state"]): SchemaController {
  return { number, name: `node${number}`, version: "0.1.0", state, since: new Date(START + number * 60_000).toISOString(), api: `https://192.0.2.${number}:8443`, portals: [`192.0.2.${number}:3260`], nvme_portals: [], sessions: state === "lost" ? 0 : number, performance: { iops: state === "lost" ? 0 : 1000 * number, bytes_per_second: state === "lost" ? 0 : 8_192_000 * number, latency_us: state === "lost" ? null : 200 }, drained: false, takeover: null };
}

/** Drains or resumes a controller. */
export function setDrained(state: State, number: string | undefined, drained: boolean): SchemaController {
  const found = state.controllers.find((it) => `${it.number}` === number);
  if (!found) throw notFound(`there is no controller "${number}"`);
  found.drained = drained;
  return found;
}

/** Random hex digits. */
export function hexDigits(next: () => number, count: number): string {
  return Array.from({ length: count }, () => Math.floor(next() * 16).toString(16)).join("");
}

function newVolume(state: State, name: string, size: number, block_size: number): SchemaVolume {
  const next = random(name.length * 7919 + state.volumes.length);
  const id = hexDigits(next, 32);
  const volume: SchemaVolume = {
    name,
    id,
    size,
    block_size,
    mapped: 0,
    naa: `naa.6${id.slice(1)}`,
    created: new Date(START + 86_400_000 * 40).toISOString(),
    connections: [],
    limits: {},
    policy: {},
    policy_in_force: { dedup: true, compression: "adaptive", verify: false },
    read_only: false,
    scsi2_reservations: true,
    mixed_transports: false,
    labels: {},
    snapshots: 0,
    performance: { iops: 0, bytes_per_second: 0, latency_us: null },
    reduction: null,
  };
  state.volumes.push(volume);
  return volume;
}

/** A name as the array takes it, and one that is free. */
export function freeName(name: string, taken: { name: string }[]): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/.test(name)) {
    throw invalid(`the name "${name}" is not possible: use 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit`);
  }
  if (taken.some((it) => it.name === name)) throw conflict(`"${name}" exists already: choose another name`);
  return name;
}

/** By name, or by id. */
export function find<T extends { name: string; id?: string }>(list: T[], name: string, noun: string): T {
  const found = list.find((it) => it.name === name || it.id === name);
  if (!found) throw notFound(`there is no ${noun} "${name}"`);
  return found;
}

export function connect(state: State, volume: string, host: string, lun: number | null): SchemaAttachment {
  const { id, naa, size, block_size } = find(state.volumes, volume, "volume");
  find(state.hosts, host, "host");
  const seen = state.connections.filter((it) => it.host === host);
  if (seen.some((it) => it.volume === volume)) throw conflict(`host "${host}" sees volume "${volume}" already`);
  if (lun !== null && seen.some((it) => it.lun === lun)) throw conflict(`LUN ${lun} of host "${host}" is taken: choose another one`);
  let free = 0;
  while (seen.some((it) => it.lun === free)) free += 1;
  const connection: SchemaConnection = { volume, volume_id: id, naa, host, lun: lun ?? free, read_only: false };
  state.connections.push(connection);
  return { ...connection, serial: naa.slice(-25), size, block_size, target_iqn: "iqn.2026-11.io.ashlar:mock", portals: [], chap: false, mutual_chap: false, subsystem_nqn: null, nsid: null, nvme_portals: [] };
}

export function create(state: State, name: string, size: number, block: number): SchemaVolume {
  freeName(name, state.volumes);
  if (size < 1024 ** 2 || size > 16 * 1024 ** 5) throw invalid("a volume is between 1 MiB and 16 PiB");
  return newVolume(state, name, size, block);
}

export const noWork = (): SchemaWorkColumns => ({ iops: [], bytes_per_second: [], failures: [], latency_us: { mean: [], p50: [], p95: [], p99: [], p999: [], max: [] } });

export const withConnections = <T extends SchemaVolume | SchemaHost>(state: State, it: T, end: "volume" | "host"): T => ({
  ...it,
  connections: state.connections.filter((connection) => connection[end] === it.name),
});

export function status(state: State): SchemaArray {
  const mapped = state.volumes.reduce((sum, volume) => sum + volume.mapped, 0);
  const provisioned = state.volumes.reduce((sum, volume) => sum + volume.size, 0);
  const unique = Math.floor(mapped / 2.3);
  const physical = Math.floor(unique / 1.7);
  const metadata = Math.floor(physical * 0.02) + 64 * 1024 ** 2;
  const ratio = (above: number, below: number) => (below > 0 ? above / below : null);
  return {
    name: state.name,
    serial: "6fa1c0de91b24477",
    version: "0.1.0",
    state: "online",
    target_iqn: "iqn.2026-11.io.ashlar:6fa1c0de91b24477",
    portals: ["10.0.0.1:3260", "10.0.1.1:3260"],
    subsystem_nqn: "nqn.2026-11.io.ashlar:6fa1c0de91b24477",
    nvme_portals: ["10.0.0.1:4420"],
    uptime_seconds: 86_400 * 12 + 3_600 * 4,
    space: { provisioned, mapped, zero: 0, snapshot: 0, logical: mapped, unique, shared: mapped - unique, physical, metadata, reclaimable: 0, free: TOTAL - physical - metadata, total: TOTAL },
    reduction: {
      data: ratio(mapped, physical),
      deduplication: ratio(mapped, unique),
      compression: ratio(unique, physical),
      thin_provisioning: ratio(provisioned, mapped),
      total: ratio(provisioned, physical),
    },
    volumes: state.volumes.length,
    hosts: state.hosts.length,
    sessions: state.hosts.reduce((sum, host) => sum + host.sessions, 0),
    memory: { limit: 64 * 1024 ** 3, source: "the memory of the machine" },
    nvme_controllers: state.hosts.reduce((sum, host) => sum + host.controllers, 0),
    encryption: "file",
  };
}

/** A replication of group `sql`, in this state. */
export function replication(name: string, role: SchemaReplication["role"], state: SchemaReplicationState): SchemaReplication {
  const demotion: SchemaReplication["progress"]["demotion"] = state === "demoting" ? "incomplete" : state === "demoted" ? "complete" : null;
  const progress = { state, demotion, problem: null, last_point: 7, last_point_taken: "2026-10-01T07:50:00Z", points: 2, blackout_until: null, lag_seconds: 600, backlog_bytes: role === "source" ? 64 * 1024 ** 2 : null, network_bytes_per_second: 12 * 1024 ** 2, throttled: false, logical_bytes: 8 * GIB, network_bytes: GIB };
  return { name, id: "00000000000000a1", created: "2026-10-01T08:00:00Z", remote_array: "site-b", role, mode: "async", volume: null, group: "sql", rpo_seconds: 300, blackouts: [], replicate_snapshots: role === "source" ? false : null, keep_snapshots: role === "target" ? 10 : null, keep_points: role === "target" ? 2 : null, keep_rules: [], lock_seconds: role === "target" ? 0 : null, progress, volumes: [], promoted_volumes: [], test_volumes: [], test_connections: [] };
}
