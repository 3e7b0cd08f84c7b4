/** Whether a host is logged in, and on every possible path. */
import { useQuery } from "@tanstack/react-query";
import { portals } from "../../api/queries";
import type { SchemaHost as Host, SchemaTargetPortal as Portal } from "../../api/schema";
import { plural } from "../../format";
import { Dot } from "../../parts/dot";
import { usable } from "./commands";
import { sessionCount } from "./sessions";

/**
 * Listening portals that the host can use but has no session on. A portal that does not listen has an alert of its own.
 */
export function missingPaths(host: Host, all: readonly Portal[]): Portal[] {
  return usable(all, host).filter((it) => it.state === "listening" && !it.hosts.includes(host.name));
}

export function HostState({ host }: { host: Host }) {
  const { data } = useQuery(portals());
  const sessions = sessionCount(host);
  if (sessions === 0) return <Dot color="gray" label="not logged in" />;
  const missing = missingPaths(host, data ?? []).length;
  if (missing === 0) return <Dot color="teal" label={plural(sessions, "session")} />;
  return <Dot color="orange" label={`${plural(sessions, "session")}, ${plural(missing, "path")} missing`} />;
}
