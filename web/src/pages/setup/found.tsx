import { Button, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { array, drives } from "../../api/queries";
import { bytes, plural } from "../../format";
import { ProblemAlert } from "../../parts/problem";
import { Shelf } from "../drives/shelf";
import { Step } from "./step";

/** What the array was given to store on. */
export function Found({ onNext }: { onNext: () => void }) {
  const { data, error } = useQuery(array());
  const shelf = useQuery(drives());
  return (
    <Step title="Drives" forward={<Button onClick={onNext}>Next</Button>}>
      <ProblemAlert error={error ?? shelf.error} />
      {!(data && shelf.data) && !(error ?? shelf.error) && <Skeleton height={90} />}
      {data && shelf.data && (
        <Stack gap="md">
          <Shelf drives={shelf.data} jobs={[]} />
          <Text size="sm">
            {plural(shelf.data.length, "drive")} with <b className="number">{bytes(data.space.total)}</b> usable, after what protects against the loss of drives. Volumes may be promised more: they take space only for what is written.
          </Text>
        </Stack>
      )}
    </Step>
  );
}
