/** The pages of the objects of alerts and events. */
import { Link } from "wouter";

type About = { kind: string; noun?: string | null; name?: string | null };
export type Place = { path: string; label: string };

/** Nouns with a page for each object. */
const PAGES: Record<string, string> = { volume: "volumes", snapshot: "snapshots", host: "hosts", "volume group": "groups", "host group": "host-groups", replication: "replications" };

/**
 * Pages for all objects of a noun, by noun, and for kinds of alerts or events without an object, by the kind's prefix.
 */
const LISTS: Record<string, Place> = {
  drive: { path: "/drives", label: "Drives" },
  protection: { path: "/drives", label: "Drives" },
  scrub: { path: "/drives", label: "Drives" },
  data: { path: "/drives", label: "Drives" },
  space: { path: "/", label: "Capacity" },
  controller: { path: "/controllers", label: "Controllers" },
  store: { path: "/controllers", label: "Controllers" },
  schedule: { path: "/schedules", label: "Schedules" },
  replication: { path: "/replications", label: "Replication" },
  "remote array": { path: "/replications", label: "Remote arrays" },
  "remote-array": { path: "/replications", label: "Remote arrays" },
  portal: { path: "/settings/portals", label: "Portals" },
  api: { path: "/settings/portals", label: "API address" },
  "notification target": { path: "/settings/notifications", label: "Notifications" },
  notification: { path: "/settings/notifications", label: "Notifications" },
  user: { path: "/settings/users", label: "Users" },
  token: { path: "/settings/tokens", label: "API tokens" },
  directory: { path: "/settings/directories", label: "Directories" },
  certificate: { path: "/settings/certificate", label: "Certificate" },
  secrets: { path: "/settings/key", label: "Encryption" },
  upgrade: { path: "/settings/upgrade", label: "Upgrade" },
  job: { path: "/jobs", label: "Jobs" },
  audit: { path: "/audit", label: "Audit log" },
};

/** The page of an alert's or event's object; null for the array or a deleted object. */
export function placeOf({ kind, noun, name }: About): Place | null {
  if (kind.endsWith(".deleted") || kind.endsWith(".eradicated")) return null;
  const page = noun && PAGES[noun];
  if (page && name) return { path: `/${page}/${encodeURIComponent(name)}`, label: name };
  return LISTS[noun ?? ""] ?? LISTS[kind.split(".")[0] ?? ""] ?? null;
}

/** A link to the object's page. */
export function PlaceLink({ about }: { about: About }) {
  const place = placeOf(about);
  return (
    place && (
      <Link className="plain" href={place.path}>
        {place.label}
      </Link>
    )
  );
}
