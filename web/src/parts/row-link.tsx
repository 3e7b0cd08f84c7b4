import { Link } from "wouter";

/** The name of an object in a table, with a link to its page below `place`. The title has the full name. */
export function RowLink({ place, name }: { place: string; name: string }) {
  return (
    <Link className="row-link cut" title={name} href={`/${place}/${encodeURIComponent(name)}`}>
      {name}
    </Link>
  );
}
