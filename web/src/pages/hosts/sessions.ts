import type { SchemaHost as Host } from "../../api/schema";

/** How often a host is logged in, over all protocols. */
export function sessionCount(host: Pick<Host, "sessions" | "controllers" | "fibre_channel_sessions">): number {
  return host.sessions + host.controllers + host.fibre_channel_sessions;
}
