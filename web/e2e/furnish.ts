import type { RunningArray } from "./array";

/** Something of every kind. */
export async function furnish(array: RunningArray) {
  await array.ask("POST", "hosts", { name: "web1", initiators: ["iqn.1993-08.org.debian:01:web1"], chap: { user: "web1", secret: "a secret of web1" } });
  await array.ask("POST", "hosts", { name: "esx1", initiators: ["iqn.1998-01.com.vmware:esx1-1f3a"] });
  await array.ask("POST", "volumes", { name: "db1", size: 2 ** 40 });
  await array.ask("POST", "volumes", { name: "db2", size: 2 ** 38 });
  await array.ask("POST", "volumes", { name: "old", size: 2 ** 30 });
  await array.ask("POST", "connections", { volume: "db1", host: "web1" });
  await array.ask("POST", "groups", { name: "sql", soft_quota: 2 ** 39, hard_quota: 2 ** 40 });
  for (const name of ["db1", "db2"]) await array.ask("PATCH", `volumes/${name}`, { group: "sql" });
  await array.ask("POST", "host-groups", { name: "cluster", hosts: ["esx1"] });
  await array.ask("POST", "connections", { volume: "db2", host_group: "cluster" });
  await array.ask("POST", "snapshots", { group: "sql", suffix: "first" });
  await array.ask("POST", "snapshots", { volume: "db1", suffix: "kept", retain_until: new Date(Date.now() + 30 * 86_400_000).toISOString() });
  await array.ask("DELETE", "volumes/old");
  await array.ask("POST", "schedules", { name: "nightly", group: "sql", rules: [{ when: "daily", keep: 7 }] });
  await array.ask("POST", "users", { name: "olga", role: "operator", password: "eight chars" });
  await array.ask("POST", "tokens", { name: "monitoring", role: "viewer", expires: "2099-01-01T00:00:00Z" });
  await array.work("iqn.1998-01.com.vmware:esx1-1f3a", 0, ["write -P 7 0 4M", "read 0 4M", "write -P 9 8M 64k", "read 8M 4k", "discard 0 1M"]);
}
