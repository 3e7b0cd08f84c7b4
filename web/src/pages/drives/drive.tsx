import { Modal } from "@mantine/core";
import type { SchemaDrive as Drive, SchemaVerdict as Verdict } from "../../api/schema";
import { bytes, count, duration, percent } from "../../format";
import { Dot } from "../../parts/dot";
import { Fact } from "../../parts/fact";
import { stateOf } from "./shelf";

/** Self-reported health of a drive. */
const VERDICTS: Record<Verdict, { color: "teal" | "red" | "gray"; label: string }> = {
  passed: { color: "teal", label: "healthy" },
  failing: { color: "red", label: "failing" },
  unknown: { color: "gray", label: "unknown" },
};

/** The health and wear of a drive. */
export function HealthCell({ drive }: { drive: Drive }) {
  const { verdict, used_percent } = drive.health;
  const { color, label } = VERDICTS[verdict];
  const worn = typeof used_percent === "number";
  return <Dot color={worn && used_percent >= 90 && verdict !== "failing" ? "orange" : color} label={worn ? `${label}, ${used_percent} % worn` : label} />;
}

/** All data of a drive. */
export function DriveDetails({ drive, onClose }: { drive: Drive; onClose: () => void }) {
  const { health } = drive;
  const known = (value: number | null | undefined, text: (value: number) => string) => (typeof value === "number" ? text(value) : undefined);
  const facts: [string, string | undefined][] = [
    ["Used", `${bytes(drive.used)} of ${bytes(drive.size)} (${percent(drive.used / drive.size)})`],
    ["Journal", drive.journal ? "carries a copy" : "none"],
    ["Read since the start", bytes(drive.read_bytes)],
    ["Written since the start", bytes(drive.written_bytes)],
    ["Failed reads", count(drive.read_errors)],
    ["Slow reads", count(drive.slow_reads)],
    ["Bad pages", count(drive.bad_pages)],
    ["Identity", drive.id],
  ];
  const reported: [string, string | undefined][] = [
    ["Model", [health.model, health.serial && `serial number ${health.serial}`, health.firmware && `firmware ${health.firmware}`].filter(Boolean).join(", ") || undefined],
    ["Temperature", known(health.temperature_celsius, (it) => `${it} °C`)],
    ["Worn", known(health.used_percent, (it) => `${it} % of the rated endurance`)],
    ["Spare space left", known(health.spare_percent, (it) => `${it} %`)],
    ["On for", known(health.power_on_hours, (it) => duration(it * 3_600))],
    ["Errors of the medium", known(health.media_errors, count)],
    ["Written in its life", known(health.lifetime_written_bytes, bytes)],
    ["Read in its life", known(health.lifetime_read_bytes, bytes)],
  ];
  return (
    <Modal opened onClose={onClose} title={`The drive in slot ${drive.slot}`} size="lg">
      <dl className="facts">
        <dt>Path</dt>
        <dd style={{ overflowWrap: "anywhere" }}>{drive.path ?? "not there"}</dd>
        <dt>State</dt>
        <dd>
          <Dot {...stateOf(drive)} />
        </dd>
        <dt>Health</dt>
        <dd>{health.verdict === "unknown" ? <span className="quiet">not reported (SMART)</span> : <Dot {...VERDICTS[health.verdict]} />}</dd>
        {[...reported, ...facts].map(
          ([name, text]) =>
            text !== undefined && (
              <Fact key={name} name={name}>
                {text}
              </Fact>
            ),
        )}
      </dl>
    </Modal>
  );
}
