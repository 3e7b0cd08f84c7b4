import { Alert, Button, Loader, Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CircleCheck } from "lucide-react";
import { Link } from "wouter";
import { host } from "../../api/queries";
import { plural } from "../../format";
import { ProblemAlert } from "../../parts/problem";
import { Instructions } from "../hosts/instructions";
import { sessionCount } from "../hosts/sessions";
import type { Given } from "./first-host";
import { Step } from "./step";

/** The steps on the host; the page shows when the host has logged in. */
export function OnTheHost({ given }: { given: Given }) {
  const { data, error } = useQuery({ ...host(given.host), refetchInterval: 2_000 });
  return (
    <Step
      title={`Commands for ${given.host}`}
      forward={
        <Button component={Link} href="/">
          To the dashboard
        </Button>
      }
    >
      <Stack gap="md">
        <ProblemAlert error={error} />
        {!data && !error && <Skeleton height={300} />}
        {data && (
          <>
            <div role="status">
              {sessionCount(data) > 0 ? (
                <Alert color="teal" icon={<CircleCheck size={18} />} title={`${given.host} is logged in`}>
                  It has {plural(sessionCount(data), "session")}, and sees {given.volume} as a new disk.
                </Alert>
              ) : (
                <Alert color="gray" icon={<Loader size={16} />}>
                  Waiting for {given.host} to log in.
                </Alert>
              )}
            </div>
            <Instructions host={data} />
          </>
        )}
      </Stack>
    </Step>
  );
}
