import { Progress, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { store } from "../../api/queries";
import type { SchemaStorePool as Pool } from "../../api/schema";
import { bytes, count, percent, plural } from "../../format";
import { Fact } from "../../parts/fact";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";

/** The store of the array: its drives, or its pools in Ceph with their use. */
export function StorePanel() {
  const { data, error } = useQuery(store());
  return (
    <Panel title="Store">
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={120} />}
      {data && (
        <dl className="facts">
          <Fact name="Kind">{data.ceph ? `Ceph, namespace ${data.ceph.namespace}` : plural(data.drives, "drive")}</Fact>
          {typeof data.owner === "number" && <Fact name="Owner">controller {data.owner}</Fact>}
          <Fact name="Segments">
            {count(data.segments)} of {count(data.total_segments)} in use, {bytes(data.segment_size)} each
          </Fact>
          <Fact name="Journal">{bytes(data.journal_size)}</Fact>
          {data.ceph && (
            <Fact name="Epoch">
              {count(data.ceph.epoch)}, {plural(data.ceph.lanes, "journal lane")}
            </Fact>
          )}
          {data.ceph?.pools.map((pool) => (
            <Fact key={pool.name} name={`Pool ${pool.name}`}>
              <Fullness pool={pool} />
            </Fact>
          ))}
          <Fact name="Identity">{data.array}</Fact>
        </dl>
      )}
    </Panel>
  );
}

/** The used share of a pool, over all of its users. */
function Fullness({ pool: { name, journal, data, stored, available, used } }: { pool: Pool }) {
  const holds = [journal && "journal", data && "data"].filter(Boolean).join(" and ");
  if (typeof used !== "number" || typeof stored !== "number" || typeof available !== "number") return <>{holds}; Ceph has not said how full it is</>;
  return (
    <>
      {holds}; {percent(used)} in use, {bytes(available)} available
      <Progress value={used * 100} size={6} mt={4} maw={220} color={used >= 0.9 ? "red" : used >= 0.8 ? "orange" : "slate"} aria-label={`Use of the pool ${name}`} />
    </>
  );
}
