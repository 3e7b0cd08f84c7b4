import { Button, Stack } from "@mantine/core";
import type { LucideIcon } from "lucide-react";
import { Plus } from "lucide-react";
import type { ReactNode } from "react";
import { Empty } from "./empty";
import { May } from "./may";
import { Page } from "./page";
import { Panel } from "./panel";
import { ProblemAlert } from "./problem";
import { DataTable, isNarrowed, type Column, type Filter, type Remote, type Selection } from "./table";

type Props<Row> = {
  title: string;
  above?: { label: string; path: string };
  list: { data: Row[] | undefined; error: unknown };
  /** The noun for one item, and its plural unless the plural only adds an s. */
  noun: string;
  many?: string;
  columns: Column<Row>[];
  id: (row: Row) => string;
  /** The text that a search reads. */
  text: (row: Row) => string;
  empty: { icon: LucideIcon; title: string; text: string };
  filters?: Filter<Row>[];
  selection?: Selection<Row>;
  chooser?: boolean;
  /** The array sorts, searches, filters and cuts the list. */
  remote?: Remote;
  create?: { label: string; icon?: LucideIcon; onClick: () => void };
  /** The error of an action of the page. */
  problem?: unknown;
  /** Above the table. */
  before?: ReactNode;
  /** Below the table: panels, and the page's dialogs. */
  children?: ReactNode;
};

/**
 * The page of a list of objects: a table, or the first step if the list is empty, and a button that creates an object.
 */
export function NounList<Row>({ title, above, list: { data, error }, noun, many, columns, id, text, empty, filters, selection, chooser, remote, create, problem, before, children }: Props<Row>) {
  const Icon = create?.icon ?? Plus;
  const button = create && (
    <May>
      <Button leftSection={<Icon size={16} aria-hidden />} onClick={create.onClick}>
        {create.label}
      </Button>
    </May>
  );
  return (
    <Page title={title} {...(above && { above })} actions={data?.length || (remote && isNarrowed(remote.shown)) ? button : undefined}>
      <Stack gap="md">
        <ProblemAlert error={problem} />
        {before}
        {data || !error ? (
          <Panel flush>
            <DataTable label={title} noun={noun} {...(many && { many })} rows={data} columns={columns} id={id} text={text} {...(filters && { filters })} {...(selection && { selection })} {...(chooser && { chooser })} {...(remote && { remote })} empty={<Empty {...empty} action={button} />} />
          </Panel>
        ) : (
          <ProblemAlert error={error} />
        )}
        {children}
      </Stack>
    </Page>
  );
}
