import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { groups, volumes } from "../api/queries";

type Props = { value?: string | null; onChange: (value: string | null) => void; error?: ReactNode; description?: string; "data-autofocus"?: boolean };

/** A choice of a volume group or a volume, of which {@link subjectOf} makes a field of a request. */
export function SubjectSelect(props: Props) {
  const all = useQuery(volumes());
  const families = useQuery(groups());
  return (
    <Select
      label="Source"
      placeholder="Volume or volume group"
      data={[
        { group: "Volume groups", items: families.data?.map((it) => ({ value: `group:${it.name}`, label: it.name })) ?? [] },
        { group: "Volumes", items: all.data?.map((it) => ({ value: `volume:${it.name}`, label: it.name })) ?? [] },
      ]}
      limit={100}
      searchable
      required
      {...props}
    />
  );
}

/** What was chosen, as requests name it. */
export function subjectOf(chosen: string | null) {
  const [kind, name] = (chosen ?? "").split(/:(.*)/, 2);
  return kind === "volume" ? { volume: name } : { group: name };
}
