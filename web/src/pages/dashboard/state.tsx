/** The state of the array, first on the page: the conditions that need attention, or that none does. */
import { Alert, Anchor, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CircleAlert, OctagonX, ShieldAlert, ShieldCheck, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { alerts, protection } from "../../api/queries";
import type { SchemaAlert, SchemaArray as ArrayStatus, SchemaProtection as Protection } from "../../api/schema";
import { moment, plural } from "../../format";
import { placeOf } from "../place";

/** Largest number of open alerts with their text; the rest is a number. */
const SHOWN = 3;
const SEVERITIES = ["critical", "warning", "info"] as const;

/** The remaining redundancy as a sentence; `bad` if it is less than designed. */
export function protectionText({ tolerates, promises, lost }: Protection): { bad: boolean; text: string } {
  if (lost > 0) return { bad: true, text: `${plural(lost, "page")} could not be reconstructed: restore the affected volumes from a copy. See Drives.` };
  if (promises === 0) return { bad: false, text: "Single drive: its failure is the loss of the data. Add drives to protect them." };
  if (tolerates === 0) return { bad: true, text: "No redundancy is left: another drive failure causes data loss. Add a drive." };
  const drives = (count: number) => (count === 1 ? "one drive" : `${count} drives`);
  if (tolerates < promises) return { bad: true, text: `Protection is reduced: only ${drives(tolerates)} may fail without data loss, of ${promises} by design. Add a drive, or wait for the rebuild.` };
  return { bad: false, text: `Any ${tolerates === 1 ? "drive" : `${tolerates} drives`} may fail without data loss.` };
}

/** The order of alerts: the most severe first, then the newest. Acknowledged alerts are still conditions. */
export function attention(all: readonly SchemaAlert[]): SchemaAlert[] {
  const open = all.filter((it) => it.state !== "closed" && it.severity !== "info");
  return open.sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || b.opened.localeCompare(a.opened));
}

export function StateBanner({ status }: { status: ArrayStatus }) {
  const { data: all } = useQuery(alerts());
  const { data: shield } = useQuery(protection());
  if (!all || !shield) return null;
  const open = attention(all);
  const guard = protectionText(shield);
  const stopped = status.state === "stopped";
  if (open.length === 0 && !guard.bad && !stopped) return <Fine text={guard.text} />;
  const critical = stopped || guard.bad || open.some((it) => it.severity === "critical");
  const title = stopped ? "The array stopped to protect data" : open.length > 0 ? `${plural(open.length, "condition")} ${open.length === 1 ? "needs" : "need"} attention` : "Protection is reduced";
  return (
    <Alert color={critical ? "red" : "orange"} icon={stopped ? <OctagonX size={18} /> : critical ? <CircleAlert size={18} /> : <TriangleAlert size={18} />} title={title} role="alert" data-state={critical ? "critical" : "warning"}>
      <Stack gap={8}>
        {stopped && <div>{status.reason ?? "The log of ashlard says why."}</div>}
        {guard.bad && (
          <Item icon={<ShieldAlert size={15} />} href="/drives">
            {guard.text}
          </Item>
        )}
        {open.slice(0, SHOWN).map((it) => (
          <Item key={it.id} icon={it.severity === "critical" ? <CircleAlert size={15} /> : <TriangleAlert size={15} />} href={placeOf(it)?.path ?? "/alerts"} since={it.opened}>
            {it.message.charAt(0).toUpperCase() + it.message.slice(1)}
          </Item>
        ))}
        <Anchor component={Link} href="/alerts" size="sm" fw={500} c="inherit" td="underline">
          {open.length > SHOWN ? `All ${open.length} alerts` : "To the alerts"}
        </Anchor>
      </Stack>
    </Alert>
  );
}

function Fine({ text }: { text: string }) {
  return (
    <Group className="panel fine" gap="sm" px="md" py={10} wrap="nowrap" role="status">
      <ShieldCheck size={18} aria-hidden color="var(--mantine-color-teal-light-color)" style={{ flex: "none" }} />
      <Text size="sm">
        <b>No open alerts.</b> {text}
      </Text>
    </Group>
  );
}

type ItemProps = { icon: ReactNode; href: string; since?: string; children: ReactNode };

function Item({ icon, href, since, children }: ItemProps) {
  return (
    <Group gap={8} wrap="nowrap" align="flex-start">
      <span aria-hidden style={{ paddingTop: 2 }}>
        {icon}
      </span>
      <div style={{ minWidth: 0, overflowWrap: "anywhere" }}>
        <Link href={href} className="banner-link">
          {children}
        </Link>
        {since && <span className="quiet number"> since {moment(since)}</span>}
      </div>
    </Group>
  );
}
