import type { SchemaHost as Host } from "../../api/schema";

/** The number of a host's sessions, over all protocols. */
export function sessionCount(host: Pick<Host, "sessions" | "controllers" | "fibre_channel_sessions">): number {
  return host.sessions + host.controllers + host.fibre_channel_sessions;
}
