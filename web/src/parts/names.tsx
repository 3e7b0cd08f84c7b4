import { plural } from "../format";

/** A few names, or their number. */
export function Names({ names, noun }: { names: string[]; noun: string }) {
  if (names.length === 0) return <span className="quiet">none</span>;
  if (names.length > 3) return <span title={names.join(", ")}>{plural(names.length, noun)}</span>;
  return (
    <span className="cut" title={names.join(", ")}>
      {names.join(", ")}
    </span>
  );
}
