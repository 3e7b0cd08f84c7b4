/** A choice of the server's drives, with their identity and contents. */
import { Alert, Button, Radio, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { RefreshCw } from "lucide-react";
import { availableDrives } from "../../api/queries";
import type { SchemaAvailableDrive as Available } from "../../api/schema";
import { bytes } from "../../format";
import { ProblemAlert } from "../../parts/problem";

/** The use of a drive: none while it is in use; only with consent if it is not blank. */
export function conditionOf({ users, contents, problem }: Available): { kind: "blank" | "overwrite" | "used" | "unknown"; text: string } {
  if (users.length > 0) return { kind: "used", text: `In use: ${users.join("; ")}.` };
  if (problem) return { kind: "unknown", text: `Its contents are not known: ${problem}.` };
  if (contents.length > 0) return { kind: "overwrite", text: `Not blank: ${contents.join("; ")}. It would be destroyed.` };
  return { kind: "blank", text: "Blank." };
}

type Props = {
  /** The path of the chosen drive; empty for none. */
  value: string;
  onChange: (drive: Available) => void;
};

export function DrivePicker({ value, onChange }: Props) {
  const { data, error, isFetching, refetch } = useQuery(availableDrives());
  const again = (
    <Button variant="subtle" color="gray" size="compact-xs" leftSection={<RefreshCw size={13} aria-hidden />} loading={isFetching} onClick={() => void refetch()}>
      Look again
    </Button>
  );
  if (error) return <ProblemAlert error={error} />;
  if (!data) return <Skeleton height={90} />;
  if (data.length === 0) {
    return (
      <Alert color="gray" title="No other drives on the server">
        Insert a drive, or type the path of one below. {again}
      </Alert>
    );
  }
  return (
    <Radio.Group
      label="Drives of the server"
      value={value}
      onChange={(path) => {
        const chosen = data.find((it) => it.path === path);
        if (chosen) onChange(chosen);
      }}
    >
      <Stack gap={6} mt={6}>
        {data.map((it) => (
          <Choice key={it.path} drive={it} />
        ))}
        <div>{again}</div>
      </Stack>
    </Radio.Group>
  );
}

function Choice({ drive }: { drive: Available }) {
  const { kind, text } = conditionOf(drive);
  return (
    <Radio.Card value={drive.path} disabled={kind === "used" || kind === "unknown"} p="xs" className="drive-choice" data-condition={kind} aria-label={`${drive.model ?? "Drive"} ${bytes(drive.size)}, ${drive.path}`}>
      <div className="drive-choice-row">
        <Radio.Indicator size="sm" />
        <div style={{ minWidth: 0 }}>
          <Text size="sm" fw={500}>
            {drive.model ?? "Drive"} <span className="number">{bytes(drive.size)}</span>
          </Text>
          <Text size="xs" className="quiet" style={{ overflowWrap: "anywhere" }}>
            {drive.serial && `Serial number ${drive.serial}, `}
            {drive.path}
          </Text>
          <Text size="xs" style={{ overflowWrap: "anywhere" }} className={kind === "blank" ? "quiet" : "drive-condition"}>
            {text}
          </Text>
        </div>
      </div>
    </Radio.Card>
  );
}
