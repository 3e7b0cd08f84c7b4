import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { groups } from "../api/queries";
import { useVolumeChoice } from "../parts/volume-choice";

type Props = { value?: string | null; onChange: (value: string | null) => void; error?: ReactNode; description?: string; "data-autofocus"?: boolean };

/** A choice of a volume group or a volume; {@link subjectOf} makes it a field of a request. */
export function SubjectSelect(props: Props) {
  const [kind, chosen] = (props.value ?? "").split(/:(.*)/, 2);
  const all = useVolumeChoice(true, kind === "volume" ? [chosen] : [], chosen);
  const families = useQuery(groups());
  return (
    <Select
      label="Source"
      placeholder="Volume or volume group"
      data={[
        { group: "Volume groups", items: families.data?.map((it) => ({ value: `group:${it.name}`, label: it.name })) ?? [] },
        { group: "Volumes", items: all.names?.map((name) => ({ value: `volume:${name}`, label: name })) ?? [] },
      ]}
      {...all.input}
      required
      {...props}
    />
  );
}

/** The chosen subject as a field of a request. */
export function subjectOf(chosen: string | null) {
  const [kind, name] = (chosen ?? "").split(/:(.*)/, 2);
  return kind === "volume" ? { volume: name } : { group: name };
}
