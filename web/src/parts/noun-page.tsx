import { Skeleton, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { Page } from "./page";
import { ProblemAlert } from "./problem";

type Props<T> = {
  name: string;
  /** The list with the object. */
  above: { label: string; path: string };
  object: { data: T | undefined; error: unknown };
  actions: (data: T) => ReactNode;
  beside?: (data: T) => ReactNode;
  children: (data: T) => ReactNode;
};

/** The page of one object: its panels, and before the answer a skeleton or the problem. */
export function NounPage<T>({ name, above, object: { data, error }, actions, beside, children }: Props<T>) {
  return (
    <Page title={name} above={above} actions={data && actions(data)} beside={data && beside?.(data)}>
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={180} />}
      {data && <Stack gap="md">{children(data)}</Stack>}
    </Page>
  );
}
