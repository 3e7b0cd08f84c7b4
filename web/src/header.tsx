/** What the header of every page has: search, open alerts and running jobs. */
import { ActionIcon, Indicator, RingProgress, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Bell, Search } from "lucide-react";
import { Link } from "wouter";
import { alerts, jobs } from "./api/queries";
import { useSession } from "./api/session";
import { plural } from "./format";

/** The number of alerts that are neither acknowledged nor closed, in the colour of the most severe. */
export function useOpenAlerts(): { count: number; color: string } {
  const { data } = useQuery({ ...alerts(), enabled: useSession().at === "in" });
  const open = data?.filter((it) => it.state === "open") ?? [];
  return { count: open.length, color: open.some((it) => it.severity === "critical") ? "red.9" : "orange.9" };
}

export function AlertBell() {
  const { count, color } = useOpenAlerts();
  const label = count === 0 ? "No open alerts" : plural(count, "open alert");
  return (
    <Tooltip label={label}>
      <Indicator disabled={count === 0} label={count > 99 ? "99+" : count} color={color} size={16} offset={6} aria-hidden={false}>
        <ActionIcon component={Link} href="/alerts" variant="subtle" color="gray" size="lg" aria-label={label}>
          <Bell size={18} />
        </ActionIcon>
      </Indicator>
    </Tooltip>
  );
}

/** Leads to the page that searches in all objects. */
export function SearchLink() {
  return (
    <Tooltip label="Search">
      <ActionIcon component={Link} href="/search" variant="subtle" color="gray" size="lg" aria-label="Search the array">
        <Search size={18} />
      </ActionIcon>
    </Tooltip>
  );
}

/** The number of running jobs; nothing if no job runs. */
export function RunningJobs() {
  const { data } = useQuery({ ...jobs(), enabled: useSession().at === "in" });
  const running = data?.filter((it) => it.state === "running") ?? [];
  if (running.length === 0) return null;
  const least = Math.min(...running.map((it) => it.progress)) * 100;
  const label = plural(running.length, "running job");
  return (
    <Tooltip label={running.map((it) => it.description).join(", ")}>
      <ActionIcon component={Link} href="/jobs" variant="subtle" color="gray" size="lg" aria-label={label}>
        <RingProgress size={26} thickness={3} sections={[{ value: Math.max(least, 4), color: "slate" }]} aria-hidden />
      </ActionIcon>
    </Tooltip>
  );
}
