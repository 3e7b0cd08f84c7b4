import { Button, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { array } from "../../api/queries";
import { bytes } from "../../format";
import { ProblemAlert } from "../../parts/problem";
import { Step } from "./step";

/** What the array was given to store on. */
export function Found({ onNext }: { onNext: () => void }) {
  const { data, error } = useQuery(array());
  return (
    <Step title="What it stores on" forward={<Button onClick={onNext}>Next</Button>}>
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={90} />}
      {data && (
        <Text size="sm">
          <b className="number">{bytes(data.space.total)}</b> usable, after what protects against the loss of drives. Volumes may be promised more than that: they take space only for what is written.
        </Text>
      )}
    </Step>
  );
}
