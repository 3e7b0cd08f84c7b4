import { Link } from "wouter";

/** The name of a thing in a table, which leads to its page below `place`. */
export function RowLink({ place, name }: { place: string; name: string }) {
  return (
    <Link className="row-link" href={`/${place}/${encodeURIComponent(name)}`}>
      {name}
    </Link>
  );
}
