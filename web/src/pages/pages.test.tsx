import { cleanup, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import { busy, controller, empty, portal, replication } from "../../mock/array";
import { browser, pageAt } from "../api/referral";
import type { SchemaAlert } from "../api/schema";
import { show } from "../test-page";

// The browser of the tests can go nowhere.
beforeEach(() => void vi.spyOn(browser, "go").mockImplementation(() => undefined));

test("no page is shown before signing in", async () => {
  const { user } = show("/", busy(), false);
  expect(await screen.findByRole("heading", { name: "Ashlar" })).toBeTruthy();
  expect(screen.getByLabelText(/Password/)).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "With a token" }));
  await user.type(screen.getByLabelText(/Token/), "secret");
  await user.click(screen.getByRole("button", { name: "Sign in" }));
  expect(await screen.findByRole("heading", { name: "Dashboard" })).toBeTruthy();
});

test("a standby says where the array is served, and becomes the array when it takes over", async () => {
  const state = { ...busy(2, 1), standby: { detail: "controller 2 is a standby", home: "https://192.0.2.1:8443" } };
  const { mock } = show("/volumes", state);
  expect(await screen.findByText("Controller 2 is a standby.")).toBeTruthy();
  expect(screen.getByRole("link", { name: /Open the interface/ }).getAttribute("href")).toMatch(/^https:\/\/192\.0\.2\.1:8443\//);
  mock.state = busy(2, 1);
  expect(await screen.findByRole("heading", { name: "Volumes" }, { timeout: 10_000 })).toBeTruthy();
  // The array moves away while a page is open.
  mock.state = state;
  expect(await screen.findByText("Controller 2 is a standby.", {}, { timeout: 10_000 })).toBeTruthy();
}, 30_000);

test("the page of a standby goes to the home by itself, but never from HTTPS to HTTP", async () => {
  const go = vi.spyOn(browser, "go").mockImplementation(() => undefined);
  show("/volumes", { ...busy(2, 1), standby: { detail: "controller 2 is a standby", home: "https://192.0.2.1:8443" } });
  await waitFor(() => expect(go).toHaveBeenCalledWith(expect.stringMatching(/^https:\/\/192\.0\.2\.1:8443\//)), { timeout: 10_000 });
  go.mockRestore();
  expect(pageAt("javascript:alert(1)")).toBeUndefined();
  expect(pageAt("ftp://192.0.2.1")).toBeUndefined();
  expect(pageAt("192.0.2.1:8443")).toBeUndefined();
}, 30_000);

test("controllers are shown with their states, the last takeover by its phases, and the pools of the store", async () => {
  const takeover = { time: "2026-10-01T08:00:00Z", from: 1, cause: "lost" as const, total_ms: 4603, silence_ms: 3500, agreement_ms: 90, store_ms: 300, recovery_ms: 700, start_ms: 13 };
  const pools = [{ name: "fast", journal: true, data: true, stored: 85, available: 15, used: 0.85 }];
  const state = busy(1, 1);
  state.controllers = [controller(1, "lost"), { ...controller(2, "home"), takeover }, controller(3, "standby")];
  state.store = { ...state.store, kind: "rados", owner: 2, drives: 0, ceph: { namespace: "ashlar", epoch: 7, lanes: 4, client: "192.0.2.2:0/1", pools } };
  show("/controllers", state);
  const table = await screen.findByRole("table", { name: "Controllers" });
  for (const word of ["lost", "home", "standby", "node3", "Sessions", "3,000"]) expect(await within(table).findByText(word)).toBeTruthy();
  const last = within(screen.getByRole("region", { name: "Last takeover" }));
  expect(last.getByText(/Controller 2 took over from controller 1, which was lost/)).toBeTruthy();
  expect(last.getByText("3,500 ms")).toBeTruthy();
  expect(last.getByText("4,603 ms")).toBeTruthy();
  const shown = within(screen.getByRole("region", { name: "Store" }));
  expect(await shown.findByText(/journal and data; 85 % in use/)).toBeTruthy();
});

test("a lost controller is removed, and one that runs is drained and resumed", async () => {
  const state = busy(1, 1);
  state.controllers = [controller(1, "lost"), controller(2, "home"), controller(3, "standby")];
  const { mock, user } = show("/controllers", state);
  const act = async (button: string, verb: string) => {
    await user.click(await screen.findByRole("button", { name: button }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: verb }));
  };
  expect(screen.queryByRole("button", { name: "Remove controller 2" })).toBeNull();
  await act("Remove controller 1", "Remove");
  await waitFor(() => expect(mock.state.controllers.map((it) => it.number)).toEqual([2, 3]));
  await act("Drain controller 3", "Drain");
  expect(await screen.findByText("standby, drained")).toBeTruthy();
  await act("Resume controller 3", "Resume");
  await waitFor(() => expect(mock.state.controllers.at(-1)?.drained).toBe(false));
});

test("a portal is added and removed; one that an option gives can’t be", async () => {
  const { mock, user } = show("/settings/portals", busy(1, 1));
  const table = await screen.findByRole("table", { name: "Portals" });
  expect(await within(table).findByText("option of the start")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Add portal" }));
  const add = within(await screen.findByRole("dialog"));
  await user.type(add.getByRole("textbox", { name: "Address" }), "10.0.1.1");
  await user.click(add.getByRole("button", { name: "Add" }));
  await waitFor(() => expect(mock.state.portals.map((it) => it.address)).toEqual(["10.0.0.1:3260", "10.0.1.1:3260"]));
  await user.click(await screen.findByRole("button", { name: "Remove 10.0.1.1:3260" }));
  await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Remove" }));
  await waitFor(() => expect(mock.state.portals.length).toBe(1));
});

test("a new address of the API is on trial until it is confirmed", async () => {
  const { mock, user } = show("/settings/portals", busy(1, 1));
  await user.click(await screen.findByRole("button", { name: "Change address" }));
  const dialog = within(await screen.findByRole("dialog"));
  await user.type(dialog.getByRole("textbox", { name: "Address" }), "10.0.0.1:8443");
  await user.click(dialog.getByRole("button", { name: "Change" }));
  expect(await screen.findByText(/10\.0\.0\.1:8443 is on trial until/)).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Confirm" }));
  await waitFor(() => expect(mock.state.apiAddress.address).toBe("10.0.0.1:8443"));
});

test("a replication that is split says what to decide, and the name is asked for before changes are lost", async () => {
  const state = { ...busy(1, 1), replications: [replication("prod", "source", "split")] };
  const { mock, user } = show("/replications", state);
  const table = await screen.findByRole("table", { name: "Replication" });
  expect(await within(table).findByText("split")).toBeTruthy();
  expect(within(table).getByText("10 min, RPO missed")).toBeTruthy();
  await user.click(within(table).getByRole("link", { name: "prod" }));
  expect((await screen.findByRole("alert")).textContent).toContain("Decide which array loses its changes");
  expect(screen.queryByRole("button", { name: "Sync now" })).toBeNull();
  await user.click(screen.getByRole("button", { name: "Demote" }));
  const dialog = within(await screen.findByRole("dialog"));
  expect(dialog.getByRole("button", { name: "Demote" }).hasAttribute("disabled")).toBe(true);
  await user.type(dialog.getByRole("textbox"), "prod");
  await user.click(dialog.getByRole("button", { name: "Demote" }));
  await waitFor(() => expect(mock.state.replications[0]?.progress.state).toBe("demoted"));
});

test("a new array says what to do first", async () => {
  show("/", empty());
  expect(await screen.findByText("Your array is ready")).toBeTruthy();
  expect(screen.getByRole("link", { name: "Set up" })).toBeTruthy();
});

test("a volume is created, connected and shown", async () => {
  const { mock, memory, user } = show("/volumes?new", busy(3, 2));
  const form = within(await screen.findByRole("dialog"));
  await user.type(form.getByLabelText(/^Name/), "new one");
  await user.type(form.getByLabelText(/Size/), "12 apples");
  await user.click(form.getByRole("button", { name: "Create" }));
  expect(form.getByText(/Use letters/)).toBeTruthy();
  expect(form.getByText(/Write a number/)).toBeTruthy();
  await user.clear(form.getByLabelText(/^Name/));
  await user.type(form.getByLabelText(/^Name/), "new-one");
  await user.clear(form.getByLabelText(/Size/));
  await user.type(form.getByLabelText(/Size/), "2 TiB");
  await user.click(form.getByRole("button", { name: "Create" }));
  await waitFor(() => expect(memory.history.at(-1)).toBe("/volumes/new-one"));
  expect(mock.state.volumes.find((it) => it.name === "new-one")?.size).toBe(2 * 1024 ** 4);
});

test("what fails after a volume was created is named, and only that is tried again", async () => {
  const { mock, user, memory } = show("/volumes?new", busy(3, 2));
  const form = within(await screen.findByRole("dialog"));
  await user.type(form.getByLabelText(/^Name/), "new-one");
  await user.type(form.getByLabelText(/^Size/), "2 TiB");
  await user.click(form.getByRole("combobox", { name: "Connect to" }));
  await user.click(await screen.findByRole("option", { name: "esx1" }));
  await user.click(form.getByRole("combobox", { name: "Snapshots" }));
  await user.click(await screen.findByRole("option", { name: "daily" }));
  await user.click(form.getByRole("button", { name: "Create" }));
  // The array in memory takes no schedules.
  const refusal = await form.findByRole("alert");
  expect(refusal.textContent).toContain("Schedule: ");
  expect(refusal.textContent).not.toContain("Connection: ");
  expect(mock.state.connections.some((it) => it.volume === "new-one" && it.host === "esx1")).toBe(true);
  await user.click(form.getByRole("combobox", { name: "Snapshots" }));
  await user.click(await screen.findByRole("option", { name: "daily" }));
  await user.click(form.getByRole("button", { name: "Create" }));
  await waitFor(() => expect(memory.history.at(-1)).toBe("/volumes/new-one"));
  expect(mock.asked.filter((it) => it === "POST /api/v1/volumes").length).toBe(1);
  expect(mock.asked.filter((it) => it === "POST /api/v1/connections").length).toBe(1);
});

test("a refusal is shown with what to do", async () => {
  const { user } = show("/volumes?new", busy(3, 2));
  const form = within(await screen.findByRole("dialog"));
  await user.type(form.getByLabelText(/^Name/), "sql-01");
  await user.type(form.getByLabelText(/Size/), "1 GiB");
  await user.click(form.getByRole("button", { name: "Create" }));
  expect((await form.findByRole("alert")).textContent).toContain("choose another name");
});

test("a volume is deleted only when its name was typed", async () => {
  const { mock, user } = show("/volumes/sql-01", busy(1, 0));
  await user.click(await screen.findByRole("button", { name: "More" }));
  await user.click(await screen.findByRole("menuitem", { name: "Delete" }));
  const form = within(await screen.findByRole("dialog"));
  const button: HTMLButtonElement = form.getByRole("button", { name: "Delete" });
  expect(button.disabled).toBe(true);
  await user.type(form.getByRole("textbox"), "sql-01");
  await user.click(button);
  await waitFor(() => expect(mock.state.volumes).toEqual([]));
});

test("what can't be deleted is said before a name is typed", async () => {
  const { user } = show("/volumes/sql-01", busy(1, 1));
  await user.click(await screen.findByRole("button", { name: "More" }));
  await user.click(await screen.findByRole("menuitem", { name: "Delete" }));
  const form = within(await screen.findByRole("dialog"));
  expect(form.getByRole("alert").textContent).toContain("connected to esx1: disconnect it first");
  expect(form.queryByRole("textbox")).toBeNull();
  expect(form.queryByRole("button", { name: "Delete" })).toBeNull();
});

test("the space usage of a volume is measured on request", async () => {
  const { user } = show("/volumes/sql-01", busy(1, 0));
  await user.click(await screen.findByRole("button", { name: "Measure" }));
  expect(await screen.findByText("Freed when deleted")).toBeTruthy();
});

test("a thousand volumes are shown a page at a time, and found", async () => {
  const { user } = show("/volumes", busy(1000, 200));
  expect(await screen.findByText("1,000 volumes")).toBeTruthy();
  const table = screen.getByRole("table", { name: "Volumes" });
  expect(within(table).getAllByRole("row").length).toBe(51);
  await user.type(screen.getByRole("searchbox", { name: "Search volumes" }), "vdi-07");
  await waitFor(() => expect(within(table).getAllByRole("row").length).toBe(2));
});

test("a choice among a thousand volumes has those whose names have what is typed", async () => {
  const { user } = show("/snapshots?new", busy(1000, 0));
  const source = await screen.findByRole("combobox", { name: /Source/ });
  await user.type(source, "vdi-07");
  const option = await screen.findByRole("option", { name: "vdi-07" });
  await user.click(option);
  expect((source as HTMLInputElement).value).toBe("vdi-07");
});

test("a host's page says what to type on it, its own system first", async () => {
  const { user } = show("/hosts/esx1", busy());
  expect(await screen.findByText(/esxcli iscsi software set/)).toBeTruthy();
  await user.click(screen.getByRole("tab", { name: "Linux" }));
  expect(await screen.findByText(/iscsiadm -m discovery/)).toBeTruthy();
});

test("a host that misses a path is not shown as well", async () => {
  const state = busy(1, 1);
  show("/hosts", { ...state, portals: [...state.portals, portal(2, "10.0.1.1:3260", true)] });
  expect(await screen.findByText("2 sessions, 1 path missing")).toBeTruthy();
});

test("a host of NVMe/TCP is shown no command of iSCSI, and what is missing while there is no portal for it", async () => {
  const state = busy(1, 1);
  state.hosts = state.hosts.map((it) => ({ ...it, name: "nvme1", initiators: [], nqns: ["nqn.2014-08.org.nvmexpress:uuid:1"] }));
  show("/hosts/nvme1", state);
  expect(await screen.findByText("No portal for NVMe/TCP")).toBeTruthy();
  cleanup();
  show("/hosts/nvme1", { ...state, portals: [...state.portals, { ...portal(2, "10.0.0.1:4420", true), protocol: "nvme-tcp" }] });
  const panel = within(await screen.findByRole("region", { name: "Commands for the host" }));
  expect(await panel.findByText(/nvme connect-all/)).toBeTruthy();
  expect(panel.queryByText(/iscsi/i)).toBeNull();
});

test("an address that leads nowhere says so", async () => {
  show("/volumes/none", busy());
  expect((await screen.findByRole("alert")).textContent).toContain("Not found");
});

test("the key of the drives is changed after a question", async () => {
  const { user } = show("/settings/key", busy(1, 0));
  expect(await screen.findByText("encrypted, locked with a key file")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Rotate the key" }));
  const question = within(await screen.findByRole("dialog"));
  await user.click(question.getByRole("button", { name: "Rotate the key" }));
  expect(await screen.findByText(/The key file has a new key/)).toBeTruthy();
});

function alert(id: number, kind: string, name: string | null): SchemaAlert {
  const time = "2026-10-01T08:00:00Z";
  return { id, kind, name, noun: name && "volume", state: "open", severity: "critical", message: kind, opened: time, changed: time, acknowledged_by: null, closed: null };
}

test("the header has the open alerts and the running jobs on every page", async () => {
  const job = { id: "00000001", kind: "scrub" as const, slot: null, description: "scrub of all drives", user: "array", started: "2026-10-01T08:00:00Z", ended: null, state: "running" as const, progress: 0.4, message: null };
  show("/schedules", { ...busy(1, 1), alerts: [alert(1, "space.threshold", null), { ...alert(2, "space.forecast", null), state: "acknowledged" }], jobs: [job, { ...job, id: "00000002", state: "done" }] });
  const header = within(await screen.findByRole("banner"));
  expect((await header.findByRole("link", { name: "1 open alert" })).getAttribute("href")).toBe("/alerts");
  expect((await header.findByRole("link", { name: "1 running job" })).getAttribute("href")).toBe("/jobs");
  cleanup();
  show("/volumes", busy(1, 1));
  expect(await screen.findByRole("link", { name: "No open alerts" })).toBeTruthy();
  expect(screen.queryByRole("link", { name: /running job/ })).toBeNull();
});

test("an alert leads to its object and names the page of the documentation", async () => {
  show("/alerts", { ...busy(1, 1), alerts: [{ ...alert(1, "host.one-path", "esx1"), noun: "host" }] });
  const row = within(await screen.findByRole("row", { name: /host.one-path/i }));
  expect(row.getByRole("link", { name: "esx1" }).getAttribute("href")).toBe("/hosts/esx1");
  expect(row.getByText("operating/hosts.md")).toBeTruthy();
});

test("the time of the array is confirmed after a question", async () => {
  const { mock, user } = show("/alerts", { ...busy(1, 0), alerts: [alert(1, "clock.jumped", null)] });
  await user.click(await screen.findByRole("button", { name: "Confirm time" }));
  const question = within(await screen.findByRole("dialog"));
  await user.click(question.getByRole("button", { name: "Cancel" }));
  expect(mock.state.alerts.length).toBe(1);
  await user.click(screen.getByRole("button", { name: "Confirm time" }));
  await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Confirm time" }));
  await waitFor(() => expect(mock.state.alerts).toEqual([]));
});

test("unreadable state is cleared only when the name of the volume was typed", async () => {
  const { mock, user } = show("/alerts", { ...busy(1, 0), alerts: [alert(1, "volume.state-unreadable", "sql-01")] });
  await user.click(await screen.findByRole("button", { name: "Clear state" }));
  const question = within(await screen.findByRole("dialog"));
  const button: HTMLButtonElement = question.getByRole("button", { name: "Clear state" });
  expect(button.disabled).toBe(true);
  await user.type(question.getByRole("textbox"), "sql-01");
  await user.click(button);
  await waitFor(() => expect(mock.state.alerts).toEqual([]));
});

test("how often a scrub begins by itself is in the largest unit", async () => {
  show("/settings", busy(1, 0));
  const amount = await screen.findByLabelText(/Interval between scrubs/);
  expect((amount as HTMLInputElement).value).toBe("7");
});

test("an identity provider signs a user in, and its parameters leave the address", async () => {
  history.replaceState(null, "", "/sign-in?code=secret-code&state=s1");
  show("/", busy(), false);
  expect(await screen.findByRole("button", { name: "Signed in as corp/ada" })).toBeTruthy();
  expect(location.pathname + location.search).toBe("/");
});

test("a refusal of an identity provider is shown, without text from the address", async () => {
  history.replaceState(null, "", "/sign-in?error=access_denied&error_description=call+this+number");
  show("/", busy(), false);
  expect((await screen.findByRole("alert")).textContent).toContain("access_denied");
  expect(document.body.textContent).not.toContain("number");
  expect(await screen.findByRole("button", { name: "Sign in with corp" })).toBeTruthy();
});

test("an initiator that no host has is offered as a host, with the reason it was refused for", async () => {
  const state = busy(1, 1);
  const initiator = "iqn.1993-08.org.debian:01:new";
  const seen = { initiator, host: null, address: "10.0.0.9", portal: 1, count: 3, first: "2026-10-01T08:00:00Z", last: "2026-10-01T09:00:00Z" };
  state.refused = [
    { ...seen, cause: "unknown-initiator", reason: "no host has this initiator name" },
    { ...seen, initiator: "iqn.x", host: "esx1", cause: "chap-required", reason: "CHAP is required, and the initiator does not use it" },
  ];
  const { mock, user } = show("/hosts", state);
  const panel = within(await screen.findByRole("region", { name: "Refused log-ins of unknown initiators" }));
  expect(panel.getByText("no host has this initiator name")).toBeTruthy();
  expect(panel.queryByText(/CHAP is required/)).toBeNull();
  await user.click(panel.getByRole("button", { name: "Add host" }));
  const form = within(await screen.findByRole("dialog"));
  await user.type(form.getByLabelText(/^Name/), "web9");
  await user.click(form.getByRole("button", { name: "Add" }));
  await waitFor(() => expect(mock.state.hosts.find((it) => it.name === "web9")?.initiators).toEqual([initiator]));
});

test("an open alert is a banner on the dashboard, and no alert is said, too", async () => {
  show("/", busy(1, 1));
  expect(await screen.findByText("No open alerts.")).toBeTruthy();
  cleanup();
  show("/", { ...busy(1, 1), alerts: [{ ...alert(1, "space.threshold", null), message: "95 % of the drives' space is in use" }] });
  const banner = await screen.findByRole("alert");
  expect(banner.textContent).toContain("1 condition needs attention");
  expect(banner.textContent).toContain("95 % of the drives' space is in use");
  expect(banner.dataset["state"]).toBe("critical");
});

test("volumes are filtered by group; those that are selected are deleted at once after a question", async () => {
  const { mock, user } = show("/volumes", { ...busy(12, 0), connections: [] });
  const table = await screen.findByRole("table", { name: "Volumes" });
  await user.click(await screen.findByRole("combobox", { name: "Filter by group" }));
  await user.click(await screen.findByRole("option", { name: "sql" }));
  await waitFor(() => expect(within(table).getAllByRole("row").length).toBe(3));
  await user.click(screen.getByRole("checkbox", { name: "Select all volumes found" }));
  const selection = within(screen.getByRole("region", { name: "Selection" }));
  expect(selection.getByText("2 volumes selected")).toBeTruthy();
  await user.click(selection.getByRole("button", { name: "Delete" }));
  const question = within(await screen.findByRole("dialog"));
  // Another user replaces one of them: the new one was not meant.
  const first = mock.state.volumes.find((it) => it.group === "sql");
  if (!first) throw new Error("the group has volumes");
  const replacement = { ...first, id: "00000000000000000000000000000abc" };
  mock.state.volumes = mock.state.volumes.map((it) => (it === first ? replacement : it));
  await user.type(question.getByRole("textbox"), "2 volumes");
  await user.click(question.getByRole("button", { name: "Delete" }));
  await waitFor(() => expect(mock.state.volumes.length).toBe(11));
  expect(mock.state.volumes).toContain(replacement);
  expect((await question.findByRole("alert")).textContent).toContain("1 of 2 failed");
});

test("hosts are filtered by label, and a selection ends with the search that hides it", async () => {
  const state = busy(3, 3);
  state.hosts.forEach((it, index) => (it.labels = index === 0 ? { rack: "4" } : {}));
  const { user } = show("/hosts", state);
  const hosts = await screen.findByRole("table", { name: "Hosts" });
  await user.click(await screen.findByRole("combobox", { name: "Filter by label" }));
  await user.click(await screen.findByRole("option", { name: "rack=4" }));
  await waitFor(() => expect(within(hosts).getAllByRole("row").length).toBe(2));
  cleanup();
  const again = show("/volumes", busy(3, 0)).user;
  await again.click(await screen.findByRole("checkbox", { name: "Select sql-01" }));
  expect(screen.getByText("1 volume selected")).toBeTruthy();
  await again.type(screen.getByRole("searchbox", { name: "Search volumes" }), "mail");
  expect(screen.queryByText("1 volume selected")).toBeNull();
});

test("a part of the settings that is none is no page", async () => {
  show("/settings/nosuch", busy(1, 0));
  expect(await screen.findByRole("heading", { name: "Page not found" })).toBeTruthy();
});

test("a search finds objects of every kind by the search of the array, a part of each", async () => {
  const { mock, user } = show("/search", busy(60, 9));
  await user.type(await screen.findByRole("searchbox", { name: "Words" }), "vmware:esx1");
  const hosts = within(await screen.findByRole("region", { name: "Hosts" }));
  expect(hosts.getByRole("link", { name: "esx1" }).getAttribute("href")).toBe("/hosts/esx1");
  expect(hosts.getByText(/iqn.1998-01.com.vmware:esx1/)).toBeTruthy();
  await user.clear(screen.getByRole("searchbox", { name: "Words" }));
  await user.type(screen.getByRole("searchbox", { name: "Words" }), "naa");
  const volumes = within(await screen.findByRole("region", { name: "Volumes" }));
  expect((await volumes.findByText(/50 more volumes/)).getAttribute("href")).toBe("/volumes");
  expect(volumes.getAllByRole("listitem").length).toBe(10);
  expect(mock.asked.some((it) => it === "GET /api/v1/volumes")).toBe(true);
});

test("one request brings everything that the list of volumes shows", async () => {
  const { mock } = show("/volumes", busy(1000, 200));
  expect(await screen.findByText("1,000 volumes")).toBeTruthy();
  const asked = mock.asked.filter((it) => /volumes|performance|snapshots|hosts|groups/.test(it));
  expect(asked).toEqual(["GET /api/v1/volumes"]);
});

test("the first run keeps the password or sets one, and offers drives with what is on them", async () => {
  const { mock, user } = show("/setup", busy(0, 0));
  expect(await screen.findByText("FAST 3840, serial number S0")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Add drive" }));
  const add = within(await screen.findByRole("dialog"));
  expect(await add.findByText(/Not blank: a partition table/)).toBeTruthy();
  const choice = (name: RegExp): HTMLButtonElement => add.getByRole("radio", { name });
  expect(choice(/BOOT 240/).disabled).toBe(true);
  await user.click(choice(/nvme-FAST_3840_S7/));
  expect(add.getByLabelText<HTMLInputElement>(/^Device/).value).toBe("/dev/disk/by-id/nvme-FAST_3840_S7");
  await user.click(add.getByRole("button", { name: "Cancel" }));
  await user.click(screen.getByRole("button", { name: "Next" }));
  await user.click(await screen.findByRole("button", { name: "Next" }));
  await user.type(await screen.findByLabelText(/New password of admin/), "my own password");
  await user.type(screen.getByLabelText(/Repeat password/), "my own password");
  await user.click(screen.getByRole("button", { name: "Set password" }));
  expect(await screen.findByText("No notification targets")).toBeTruthy();
  expect(mock.state.password).toBe("my own password");
});

test("an upgrade is committed after a confirmation that names the end of the way back", async () => {
  const { user, mock } = show("/settings/upgrade", busy(1, 1));
  const formats = await screen.findByRole("table", { name: "Formats" });
  expect(within(formats).getByText("6 to 7")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Commit the upgrade" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Commit the upgrade?" }));
  expect(dialog.getByText(/no way back/)).toBeTruthy();
  expect(mock.state.upgrade.committed).toBe(false);
  await user.click(dialog.getByRole("button", { name: "Commit the upgrade" }));
  expect(await screen.findByText("The array has the newest format")).toBeTruthy();
  expect(mock.state.upgrade.committed).toBe(true);
});
