import type { SchemaSizeRow as SizeRow } from "../../api/schema";
import { bytes, count, percent } from "../../format";

/** The sizes of reads and writes. */
export function SizeHistogram({ rows }: { rows: SizeRow[] }) {
  const sum = rows.reduce((all, it) => all + it.reads + it.writes, 0);
  const most = Math.max(...rows.flatMap((it) => [it.reads, it.writes]), 1);
  if (sum === 0) return <p className="quiet" style={{ fontSize: 13 }}>No reads or writes in this period.</p>;
  const bar = (kind: string, value: number, color: string) => (
    <div className="size-bar" style={{ width: `${(value / most) * 100}%`, background: color }} title={`${count(value)} ${kind}s, ${percent(value / sum)}`} />
  );
  return (
    <table className="size-histogram" aria-label="Sizes of reads and writes">
      <thead>
        <tr>
          <th scope="col">Size</th>
          <th scope="col" aria-label="Bars" />
          <th scope="col">Reads</th>
          <th scope="col">Writes</th>
        </tr>
      </thead>
      <tbody>
        {rows
          .filter((it) => it.reads + it.writes > 0)
          .map((it) => (
            <tr key={it.bytes ?? "more"}>
              <th scope="row">{it.bytes == null ? "larger" : `≤ ${bytes(it.bytes)}`}</th>
              <td>
                {bar("read", it.reads, "var(--ashlar-data)")}
                {bar("write", it.writes, "var(--ashlar-data-3)")}
              </td>
              <td>{count(it.reads)}</td>
              <td>{count(it.writes)}</td>
            </tr>
          ))}
      </tbody>
    </table>
  );
}
