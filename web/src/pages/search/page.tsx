/** Objects that have words in their names, labels, initiator names or identifiers: by the search of each list of the array. */
import { Anchor, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQueries } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { Link, useLocation, useSearch } from "wouter";
import { answer, api } from "../../api/client";
import { key, type Key } from "../../api/keys";
import { plural } from "../../format";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { RowLink } from "../../parts/row-link";

/** Results of each kind that are shown; the list of the kind has the rest. */
const SHOWN = 10;
const TYPED_MS = 200;

type Found = { name: string; labels?: Record<string, string> };
type Asked = { params: { query: { search: string; limit: number; sort: string } }; signal: AbortSignal };
type Kind = {
  topic: Key;
  title: string;
  noun: string;
  /** The list, and the pages of objects below it where they have some. */
  place: string;
  pages: boolean;
  ask: (it: Asked) => Promise<{ items: Found[]; total: number }>;
  /** What the words may have been found in, beside the name. */
  about: (it: Found) => string[];
};

const labels = ({ labels = {} }: Found) => Object.entries(labels).map(([name, value]) => `${name}=${value}`);
const kind = <T extends Found>(it: Omit<Kind, "ask" | "about"> & { ask: (asked: Asked) => Promise<{ items: T[]; total: number }>; about: (it: T) => string[] }) => it as unknown as Kind;

const KINDS: Kind[] = [
  kind({ topic: "volumes", title: "Volumes", noun: "volume", place: "volumes", pages: true, ask: (it) => answer(api.GET("/api/v1/volumes", it)), about: (it) => [it.naa, ...labels(it)] }),
  kind({ topic: "hosts", title: "Hosts", noun: "host", place: "hosts", pages: true, ask: (it) => answer(api.GET("/api/v1/hosts", it)), about: (it) => [...it.initiators, ...it.nqns, ...it.wwpns, ...labels(it)] }),
  kind({ topic: "snapshots", title: "Snapshots", noun: "snapshot", place: "snapshots", pages: true, ask: (it) => answer(api.GET("/api/v1/snapshots", it)), about: (it) => [it.naa, ...labels(it)] }),
  kind({ topic: "groups", title: "Volume groups", noun: "group", place: "groups", pages: true, ask: (it) => answer(api.GET("/api/v1/groups", it)), about: labels }),
  kind({ topic: "host-groups", title: "Host groups", noun: "group", place: "host-groups", pages: true, ask: (it) => answer(api.GET("/api/v1/host-groups", it)), about: labels }),
  kind({ topic: "schedules", title: "Schedules", noun: "schedule", place: "schedules", pages: false, ask: (it) => answer(api.GET("/api/v1/schedules", it)), about: () => [] }),
  kind({ topic: "replications", title: "Replications", noun: "replication", place: "replications", pages: true, ask: (it) => answer(api.GET("/api/v1/replications", it)), about: () => [] }),
];

const found = ({ topic, ask }: Kind, search: string) =>
  queryOptions({
    queryKey: key(topic, "search", search),
    queryFn: ({ signal }) => ask({ params: { query: { search, limit: SHOWN, sort: "name" } }, signal }),
    enabled: search !== "",
    placeholderData: keepPreviousData,
  });

export function SearchPage() {
  const [location, go] = useLocation();
  const text = new URLSearchParams(useSearch()).get("q") ?? "";
  const [words] = useDebouncedValue(text.trim(), TYPED_MS);
  const results = useQueries({ queries: KINDS.map((it) => found(it, words)) });
  const total = results.reduce((sum, { data }) => sum + (data?.total ?? 0), 0);
  const settled = words === text.trim() && results.every((it) => !it.isFetching);
  return (
    <Page title="Search">
      <Stack gap="md">
        <TextInput
          aria-label="Words"
          placeholder="Name, label, IQN, NQN or NAA identifier"
          type="search"
          leftSection={<Search size={15} aria-hidden />}
          value={text}
          onChange={(event) => go(`${location}?${new URLSearchParams({ q: event.currentTarget.value }).toString()}`, { replace: true })}
          maw={520}
          data-autofocus
          autoFocus
        />
        <ProblemAlert error={results.find((it) => it.error)?.error} />
        <Text size="sm" className="quiet" role="status">
          {words === "" ? "Every word has to be found in an object." : settled ? plural(total, "result") : "Searching"}
        </Text>
        {words !== "" && KINDS.map((it, index) => <Results key={it.title} of={it} words={words} data={results[index]?.data} />)}
      </Stack>
    </Page>
  );
}

function Results({ of: { title, noun, place, pages, about }, words, data }: { of: Kind; words: string; data: { items: Found[]; total: number } | undefined }) {
  if (!data || data.items.length === 0) return null;
  const sought = words.toLowerCase().split(/\s+/);
  const rest = data.total - data.items.length;
  return (
    <Panel title={title}>
      <Stack component="ul" gap={6} m={0} p={0} className="data-table" style={{ listStyle: "none" }}>
        {data.items.map((it) => {
          const why = about(it).filter((text) => sought.some((word) => text.toLowerCase().includes(word)));
          return (
            <li key={it.name}>
              {pages ? <RowLink place={place} name={it.name} /> : <Link className="row-link cut" title={it.name} href={`/${place}`}>{it.name}</Link>}
              {why.length > 0 && (
                <Text span size="xs" className="quiet" style={{ overflowWrap: "anywhere" }}>
                  {" "}
                  {why.join(", ")}
                </Text>
              )}
            </li>
          );
        })}
      </Stack>
      {rest > 0 && (
        <Anchor component={Link} href={`/${place}`} size="sm" mt="xs" display="block">
          {plural(rest, `more ${noun}`)}: search in the list
        </Anchor>
      )}
    </Panel>
  );
}
